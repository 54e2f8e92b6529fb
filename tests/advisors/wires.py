"""What providers send and are sent, in the wire format of each."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.advisors.provider_server import Request

ADVICE = {"recommendation": ["A"], "reasoning": "A is safer.", "confidence": "high"}

#: Tokens that every response says it cost.
PROMPT_TOKENS, COMPLETION_TOKENS = 312, 88


@dataclass(frozen=True)
class Wire(ABC):
    """One format. `settings` configure a provider of it, whose address `path` is added to."""

    name: str
    settings: Mapping[str, Any]
    path: str = ""

    def provider(self, address: str, **settings: Any) -> dict[str, Any]:
        """The settings of a provider at an address."""
        return {"base_url": address + self.path, "models": ["m"], **self.settings, **settings}

    def advice(self, **fields: Any) -> Any:
        """A response that carries structured output: ADVICE, but for these fields."""
        return self.output(ADVICE | fields)

    @abstractmethod
    def output(self, output: Any) -> Any:
        """A response that carries an output in the place for it."""

    @abstractmethod
    def text(self, text: str, **fields: Any) -> Any:
        """A response that is mere text."""

    @abstractmethod
    def refusal(self) -> Any:
        """A response that says no."""

    @abstractmethod
    def cut_off(self) -> Any:
        """A response that ends where the model had no more tokens."""

    def error(self, message: str) -> Any:
        """The body of an error."""
        return {"error": {"type": "some_error", "message": message}}

    @abstractmethod
    def system(self, request: Request) -> str:
        """The instructions of a request."""

    @abstractmethod
    def user(self, request: Request) -> str:
        """The one user message of a request, which has no other message."""

    def key(self, request: Request) -> str:
        """The key that a request carries."""
        return request.headers["authorization"].removeprefix("Bearer ")


class Chat(Wire):
    """OpenAI's chat completions, with a JSON Schema."""

    def output(self, output: Any) -> Any:
        return self.text(json.dumps(output))

    def text(self, text: str, **fields: Any) -> Any:
        return self._response({"content": text}, **fields)

    def refusal(self) -> Any:
        return self._response({"content": None, "refusal": "I would rather not."})

    def cut_off(self) -> Any:
        return self.text('{"recommendation": ["A', finish_reason="length")

    def _response(self, message: dict[str, Any], finish_reason: str = "stop") -> Any:
        choice = {"index": 0, "finish_reason": finish_reason, "message": {"role": "assistant"} | message}
        usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": COMPLETION_TOKENS, "total_tokens": 400}
        return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}

    def system(self, request: Request) -> str:
        (system, _) = request.body["messages"]
        assert system["role"] == "system"
        return str(system["content"])

    def user(self, request: Request) -> str:
        (_, user) = request.body["messages"]
        assert user["role"] == "user"
        return str(user["content"])


class ChatTool(Chat):
    """OpenAI's chat completions, with a tool."""

    def output(self, output: Any) -> Any:
        call = {"id": "t", "type": "function", "function": {"name": "advice", "arguments": json.dumps(output)}}
        return self._response({"content": None, "tool_calls": [call]}, finish_reason="tool_calls")


class Responses(Wire):
    """OpenAI's responses, with a JSON Schema. They are used at OpenAI's own address alone."""

    def provider(self, address: str, **settings: Any) -> dict[str, Any]:
        return super().provider(address, **settings) | {"base_url": ""}

    def output(self, output: Any) -> Any:
        return self.text(json.dumps(output))

    def text(self, text: str, **fields: Any) -> Any:
        return self._message({"type": "output_text", "text": text, "annotations": []}, **fields)

    def refusal(self) -> Any:
        return self._message({"type": "refusal", "refusal": "I would rather not."})

    def cut_off(self) -> Any:
        details = {"reason": "max_output_tokens"}
        return self.text('{"recommendation": ["A', status="incomplete", incomplete_details=details)

    def _message(self, content: dict[str, Any], **fields: Any) -> Any:
        item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [content]}
        return self._response(item, **fields)

    def _response(self, item: dict[str, Any], **fields: Any) -> Any:
        usage = {
            "input_tokens": PROMPT_TOKENS,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": COMPLETION_TOKENS,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 400,
        }
        response = {"id": "r", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
        rest = {"output": [item], "usage": usage, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        return response | rest | fields

    def system(self, request: Request) -> str:
        (system, _) = self._messages(request)
        assert system["role"] == "system"
        return str(system["content"])

    def user(self, request: Request) -> str:
        (_, user) = self._messages(request)
        assert user["role"] == "user"
        return str(user["content"])

    def _messages(self, request: Request) -> Any:
        assert request.path == "/responses"
        assert request.body["store"] is False
        return request.body["input"]


class Anthropic(Wire):
    """Anthropic's messages, with a tool, since what the model can do is not known."""

    def output(self, output: Any) -> Any:
        return self._response(
            {"type": "tool_use", "id": "t", "name": "advice", "input": output}, stop_reason="tool_use"
        )

    def text(self, text: str, **fields: Any) -> Any:
        return self._response({"type": "text", "text": text}, **fields)

    def refusal(self) -> Any:
        return self.text("I would rather not.", stop_reason="refusal")

    def cut_off(self) -> Any:
        return self.text("I think", stop_reason="max_tokens")

    def _response(self, block: dict[str, Any], stop_reason: str = "end_turn") -> Any:
        usage = {"input_tokens": PROMPT_TOKENS, "output_tokens": COMPLETION_TOKENS}
        message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [block]}
        return message | {"stop_reason": stop_reason, "stop_sequence": None, "usage": usage}

    def system(self, request: Request) -> str:
        return str(request.body["system"])

    def user(self, request: Request) -> str:
        (message,) = request.body["messages"]
        (block,) = message["content"]
        return str(block["text"])

    def key(self, request: Request) -> str:
        return request.headers.get("x-api-key") or super().key(request)


class Google(Wire):
    """Google's generateContent, with a tool."""

    def output(self, output: Any) -> Any:
        return self._response({"functionCall": {"name": "advice", "args": output}})

    def text(self, text: str, **fields: Any) -> Any:
        return self._response({"text": text}, **fields)

    def refusal(self) -> Any:
        return self.text("", finishReason="SAFETY")

    def cut_off(self) -> Any:
        return self.text("I think", finishReason="MAX_TOKENS")

    def _response(self, part: dict[str, Any], **fields: Any) -> Any:
        usage = {
            "promptTokenCount": PROMPT_TOKENS,
            "candidatesTokenCount": COMPLETION_TOKENS,
            "totalTokenCount": 400,
        }
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"} | fields
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m"}

    def error(self, message: str) -> Any:
        return {"error": {"code": 400, "message": message, "status": "SOME_ERROR"}}

    def system(self, request: Request) -> str:
        (part,) = request.body["systemInstruction"]["parts"]
        return str(part["text"])

    def user(self, request: Request) -> str:
        (content,) = request.body["contents"]
        (part,) = content["parts"]
        return str(part["text"])

    def key(self, request: Request) -> str:
        return request.headers["x-goog-api-key"]


CHAT = Chat("chat", {"kind": "openai"}, "/v1")
CHAT_TOOL = ChatTool("chat-tool", {"kind": "openai", "output": "tool"}, "/v1")
RESPONSES = Responses("responses", {"kind": "openai"})
ANTHROPIC = Anthropic("anthropic", {"kind": "anthropic"})
GOOGLE = Google("google", {"kind": "google", "output": "tool"})
WIRES = (CHAT, CHAT_TOOL, RESPONSES, ANTHROPIC, GOOGLE)
