"""A network's embeddings, started from pretrained vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from bidibeam.errors import InputError
from bidibeam.models.gru.network import EMBEDDING_SCALE

if TYPE_CHECKING:
    from torch import Tensor

    from bidibeam.data.vectors import Vectors
    from bidibeam.models.gru.network import BidirectionalModel


def use_vectors(model: BidirectionalModel, vectors: Vectors) -> None:
    """Start a network's embeddings from pretrained vectors.

    All vectors are scaled by one number, so that their components are as large as those of the words that
    have none; the geometry stays, and the network's other weights need not adapt to the file's units.

    Raises:
        InputError: If the dimensions differ, or no word has a vector.
    """
    size = model.settings.embedding_size
    if not len(vectors.ids):
        raise InputError("The vector file holds none of the vocabulary's words. Is it for another language?")
    if vectors.values.shape[1] != size:
        raise InputError(
            f"The vectors have {vectors.values.shape[1]} dimensions, but model.embedding_size is {size}. "
            f"Add --set model.embedding_size={vectors.values.shape[1]}."
        )
    spread = float(np.sqrt(np.mean(np.square(vectors.values, dtype=np.float64)))) or 1.0
    values: Tensor = torch.from_numpy(vectors.values * np.float32(EMBEDDING_SCALE / spread))
    with torch.no_grad():
        for index in range(len(model.embeddings)):
            weight = model.embedding(index).weight
            weight[torch.from_numpy(vectors.ids).to(weight.device)] = values.to(weight.device)
