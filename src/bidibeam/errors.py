"""Everything bidibeam raises on purpose.

BidibeamError
├── UnknownNameError   a name that no registry holds
├── SettingsError      a setting out of range, of the wrong type or unknown
├── CorpusError        a corpus that is missing, malformed or empty
├── InputError         a source file or an n-best file that cannot be used
├── RunError           a run or data directory that is damaged, incomplete or of another version
├── TrainingError      training that cannot go on
├── TransformersMissingError   the extra that brings transformers is not installed
├── ScorerError        a model whose answers a search cannot use
└── SimilarityError    a similarity whose answers a strategy cannot use

Each message says what is wrong, which value was received, and what to do.
"""

from __future__ import annotations


class BidibeamError(Exception):
    """Base of every error that a user can mend; the command line prints it as one sentence."""


class UnknownNameError(BidibeamError):
    """A name that no registry holds."""


class SettingsError(BidibeamError):
    """A setting that is unknown, of the wrong type or out of range."""


class CorpusError(BidibeamError):
    """A corpus that is missing, malformed or empty."""


class InputError(BidibeamError):
    """A file of sources or hypotheses that cannot be used."""


class RunError(BidibeamError):
    """A run or data directory that is damaged, incomplete or of another version."""


class TrainingError(BidibeamError):
    """Training that cannot go on."""


class ScorerError(BidibeamError):
    """A model whose answers a search cannot use."""


class SimilarityError(BidibeamError):
    """A similarity whose answers a strategy cannot use."""


class TransformersMissingError(BidibeamError, ImportError):
    """The extra that brings transformers is not installed."""
