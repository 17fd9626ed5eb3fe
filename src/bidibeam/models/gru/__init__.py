"""The paper's network: GRUs with attention, a decoder for each direction."""
