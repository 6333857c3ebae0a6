"""What an author of an environment needs to fit it to the actor's contract."""

from envs.episodes import EpisodeTracker
from envs.gymnasium_vector import GymnasiumVector
from envs.multi_agent import MultiAgentVector

__all__ = ["EpisodeTracker", "GymnasiumVector", "MultiAgentVector"]
