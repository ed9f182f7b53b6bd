from .request import Answer, Asked, asked
from .translator import AgUi
from .wire import framed

__all__ = ["AgUi", "Answer", "Asked", "asked", "framed"]
