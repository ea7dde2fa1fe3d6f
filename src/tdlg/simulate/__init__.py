"""The temporal stochastic block model of the paper, and what its line graph and node embeddings are on average."""

from tdlg.simulate.blocks import BlockSample, BlockValues, TemporalBlockModel, make_tsbm

__all__ = ["BlockSample", "BlockValues", "TemporalBlockModel", "make_tsbm"]
