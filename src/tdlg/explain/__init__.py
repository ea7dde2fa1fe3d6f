"""Why a model predicts what it predicts, in words."""
