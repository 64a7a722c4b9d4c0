"""The OLMo 3 language model: weights, training, generation."""

from bedplate.olmo.checkpoint import load, save
from bedplate.olmo.config import Config
from bedplate.olmo.model import Olmo3
from bedplate.olmo.presets import PRESETS, Preset
from bedplate.olmo.settings import Progress, TrainResult, TrainSettings
from bedplate.olmo.training import train

__all__ = [
    "PRESETS",
    "Config",
    "Olmo3",
    "Preset",
    "Progress",
    "TrainResult",
    "TrainSettings",
    "load",
    "save",
    "train",
]
