"""Calls to a provider through pydantic-ai. Importing this takes seconds, and needs the extra `consult`."""

import logging
from collections.abc import Callable
from functools import cache

import httpx2
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelRequest, SystemPromptPart, UserPromptPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from askd.advisors import prompt
from askd.advisors.bounds import open_client
from askd.advisors.failures import Failure, failure_of
from askd.advisors.replies import read_reply
from askd.config import Provider
from askd.domain.advice import Consultation, ModelReply

log = logging.getLogger(__name__)
for chatty in ("httpx2", "google_genai"):
    logging.getLogger(chatty).setLevel(logging.WARNING)

#: The name and the purpose of the output, as a model sees them.
OUTPUT = "advice"
PURPOSE = "Give your advice to the person who has to answer."
#: Tokens that an Anthropic model may write. Its API wants a number, and streams where it is larger.
ANTHROPIC_TOKENS = 8192

#: Named always, since the packages take addresses from the environment otherwise.
ADDRESSES = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "google": "https://generativelanguage.googleapis.com",
}


class Connection:
    """A provider's models over one pool of HTTP connections."""

    def __init__(self, client: httpx2.AsyncClient, model: Callable[[str], Model], output: str | None) -> None:
        self._client = client
        self._model = cache(model)
        self._output = output

    async def call(self, model_id: str, consultation: Consultation) -> ModelReply | Failure:
        """One request to a model. Raises AskdError (model_output_invalid) for a response without a usable output."""
        request = ModelRequest(
            parts=[SystemPromptPart(prompt.instructions(consultation)), UserPromptPart(prompt.document(consultation))]
        )
        try:
            model = self._model(model_id)
            parameters = _parameters(self._output or _known_output(model), len(consultation.questions))
            response = await model_request(model, [request], model_request_parameters=parameters)
        except Exception as error:  # adapters meet what they do not expect in all the ways there are
            # Nothing but its kind: the texts of errors hold what was asked and answered.
            log.info("a call to %s failed: %s", model_id, type(error).__name__)
            return failure_of(error)
        return read_reply(response)

    async def close(self) -> None:
        """Close the HTTP connections."""
        await self._client.aclose()


def _known_output(model: Model) -> str:
    return "schema" if model.profile.get("supports_json_schema_output") else "tool"


def _parameters(output: str, count: int) -> ModelRequestParameters:
    schema = prompt.schema(count)
    if output == "schema":
        definition = OutputObjectDefinition(json_schema=schema, name=OUTPUT, description=PURPOSE, strict=True)
        return ModelRequestParameters(output_mode="native", output_object=definition)
    tool = ToolDefinition(name=OUTPUT, description=PURPOSE, parameters_json_schema=schema, kind="output", strict=True)
    return ModelRequestParameters(output_mode="tool", output_tools=[tool], allow_text_output=False)


def connect(provider_id: str, provider: Provider) -> Connection:
    """A connection to a provider; nothing is sent yet."""
    client = open_client()
    model = _MODELS[provider.kind](provider_id, provider, client)
    return Connection(client, model, provider.output)


def _openai(provider_id: str, provider: Provider, client: httpx2.AsyncClient) -> Callable[[str], Model]:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel, OpenAIResponsesModelSettings
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    sdk = AsyncOpenAI(
        base_url=provider.base_url or ADDRESSES["openai"],
        api_key=provider.api_key or "none",  # what needs no key is sent this
        http_client=client,
        timeout=None,
        max_retries=0,
    )
    if provider.base_url:
        compatible = OpenAICompatibleProvider(provider_id, openai_client=sdk)
        return lambda model_id: OpenAIChatModel(model_id, provider=compatible)
    settings = OpenAIResponsesModelSettings(openai_store=False)
    own = OpenAIProvider(openai_client=sdk)
    return lambda model_id: OpenAIResponsesModel(model_id, provider=own, settings=settings)


def _anthropic(_: str, provider: Provider, client: httpx2.AsyncClient) -> Callable[[str], Model]:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    sdk = AsyncAnthropic(
        base_url=provider.base_url or ADDRESSES["anthropic"],
        api_key=provider.api_key or "none",
        http_client=client,
        timeout=None,
        max_retries=0,
    )
    own = AnthropicProvider(anthropic_client=sdk)
    settings = ModelSettings(max_tokens=ANTHROPIC_TOKENS)
    return lambda model_id: AnthropicModel(model_id, provider=own, settings=settings)


def _google(_: str, provider: Provider, client: httpx2.AsyncClient) -> Callable[[str], Model]:
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    own = GoogleProvider(
        base_url=provider.base_url or ADDRESSES["google"], api_key=provider.api_key or "none", http_client=client
    )
    return lambda model_id: GoogleModel(model_id, provider=own)


_MODELS = {"openai": _openai, "anthropic": _anthropic, "google": _google}
