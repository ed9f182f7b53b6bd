"""AG-UI 1.0 (docs.ag-ui.com/spec/1.0): runs as events of the protocol, and its `RunAgentInput` as a run."""

from .protocol import to_sse
from .request import AgUiInput, QuestionAnswer, RunAgentInput, read_input
from .translate import AgUiTranslator

__all__ = ["AgUiInput", "AgUiTranslator", "QuestionAnswer", "RunAgentInput", "read_input", "to_sse"]
