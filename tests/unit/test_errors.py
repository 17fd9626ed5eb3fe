"""The errors that a user can mend have one root."""

from __future__ import annotations

import inspect

from bidibeam import errors


def test_every_error_has_the_one_root_and_says_what_it_is() -> None:
    defined = [
        each for _, each in inspect.getmembers(errors, inspect.isclass) if each.__module__ == errors.__name__
    ]

    assert errors.BidibeamError in defined
    for each in defined:
        assert issubclass(each, errors.BidibeamError)
        assert each.__doc__
