"""What a model wrote, from the response of its provider."""

import json
from collections.abc import Sequence

from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

from askd.domain.advice import ModelReply, TokenUsage, output_invalid


def read_reply(response: ModelResponse) -> ModelReply:
    """The output of a response and its cost. A refusal and an output that was cut off are model_output_invalid."""
    if response.finish_reason == "content_filter":
        raise output_invalid("the model refused to answer")
    if response.finish_reason == "length":
        raise output_invalid("the output was cut off at the model's limit of tokens")
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    texts = [part.content for part in response.parts if isinstance(part, TextPart)]
    usage = TokenUsage(prompt=response.usage.input_tokens, completion=response.usage.output_tokens)
    return ModelReply(output=_arguments(calls) if calls else "".join(texts), usage=usage)


def _arguments(calls: Sequence[ToolCallPart]) -> str:
    if len(calls) > 1:
        raise output_invalid("there is more than one output")
    arguments = calls[0].args
    return arguments if isinstance(arguments, str) else json.dumps(arguments or {})
