"""Names of recipes, apart from the recipes: the command line shows them before JAX is imported."""

from __future__ import annotations

from typing import Literal, TypeAlias

LikelihoodRecipe: TypeAlias = Literal["cd", "pcd", "rdm", "tempered", "mean_field", "tap"]
