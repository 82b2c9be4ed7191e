"""Names of recipes, apart from the recipes: the command line shows them before JAX is imported."""

from __future__ import annotations

from typing import Literal, TypeAlias

LikelihoodRecipe: TypeAlias = Literal["cd", "pcd", "rdm", "reweighted", "tempered", "mean_field", "tap"]

# How each recipe is written, for who names it otherwise.
RECIPES = {
    "cd": "cd(steps=1)",
    "pcd": "pcd(steps=10)",
    "rdm": "rdm(steps=10)",
    "reweighted": "reweighted(steps=10)",
    "tempered": "tempered(steps=1)",
    "mean_field": "mean_field()",
    "tap": "tap()",
    "exact": "exact()",
    "equilibrium_propagation": "equilibrium_propagation()",
    "contrastive_hebbian": "contrastive_hebbian()",
    "recurrent_backprop": "recurrent_backprop()",
    "unrolled_backprop": "unrolled_backprop()",
    "feedforward_backprop": "feedforward_backprop()",
}
