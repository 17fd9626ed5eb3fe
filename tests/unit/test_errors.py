"""The errors that a user can mend have one root, and their module draws the tree."""

from __future__ import annotations

import inspect

from bidibeam import errors


def test_every_error_has_the_one_root_and_stands_in_the_drawing() -> None:
    defined = [each for _, each in inspect.getmembers(errors, inspect.isclass)]

    assert errors.BidibeamError in defined
    for each in defined:
        assert issubclass(each, errors.BidibeamError)
        assert each.__name__ in (errors.__doc__ or "")
        assert each.__doc__
