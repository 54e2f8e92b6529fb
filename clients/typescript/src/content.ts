// Questions and answers in the contract's JSON form (sections 2 and 3), and the messages they stand for.
import { create, fromJson, isMessage, toJson, type JsonValue, type MessageInitShape } from "@bufbuild/protobuf"
import { durationFromMs, ValueSchema, type Duration } from "@bufbuild/protobuf/wkt"
import { refusing } from "./errors.js"
import {
  AnswerSubmissionSchema,
  ChoiceOptionSchema,
  QuestionSchema,
  type Answer as AnswerMessage,
  type AnswerSubmission,
  type AskState,
  type ContentPartSchema,
  type Question as QuestionMessage,
} from "./gen/askd/v1/ask_pb.js"

export type Part = { type: "text"; text: string } | { type: "json"; value: JsonValue }

/** A plain string stands for one text part. */
export type Prompt = string | readonly Part[]

export interface TextQuestion {
  type: "text"
  prompt: Prompt
  title?: string
}

export interface Option {
  id: string
  label: string
  description?: string
  /** What the asker gets back when the option is selected. */
  value: JsonValue
}

export interface ChoiceQuestion {
  type: "choice"
  prompt: Prompt
  title?: string
  options: readonly Option[]
  multiple?: boolean
  allowCustom?: boolean
  allowNotes?: boolean
}

/** A question as JSON data, as a message, or the prompt of a text question. */
export type Question = string | TextQuestion | ChoiceQuestion | QuestionMessage

export interface ChoiceSubmission {
  selectedIds: readonly string[]
  custom?: string
  notes?: string
}

/** What answers one question: a text, a choice, or a message. */
export type Submission = string | ChoiceSubmission | AnswerSubmission

export interface ChoiceAnswer {
  selected: { id: string; value: JsonValue }[]
  custom?: string
  notes?: string
}

export type Answer = string | ChoiceAnswer

/** The answers of an ask, one for each question in order; none unless it was answered and its payload is still kept. */
export function answersOf(ask: AskState): Answer[] {
  return ask.answers.map(answer)
}

function answer({ kind }: AnswerMessage): Answer {
  if (kind.case !== "choice") return kind.value ?? ""
  const { selected, custom, notes } = kind.value
  return {
    selected: selected.map(({ id, value }) => ({ id, value: toJson(ValueSchema, value!) })),
    ...(custom !== undefined && { custom }),
    ...(notes !== undefined && { notes }),
  }
}

export function questions(given: Question | readonly Question[]): QuestionMessage[] {
  return [given].flat().map((item) => question(item as Question))
}

export function question(given: Question): QuestionMessage {
  if (typeof given === "string") return question({ type: "text", prompt: given })
  if (isMessage(given)) return given
  return refusing("invalid_arguments", () =>
    create(QuestionSchema, {
      prompt: prompt(given.prompt),
      ...(given.title !== undefined && { title: given.title }),
      kind: given.type === "text" ? { case: "text", value: {} } : { case: "choice", value: choice(given) },
    }),
  )
}

function prompt(given: Prompt): MessageInitShape<typeof ContentPartSchema>[] {
  if (typeof given === "string") return [{ part: { case: "text", value: given } }]
  return given.map((part) => ({
    part:
      part.type === "text"
        ? { case: "text", value: part.text }
        : { case: "json", value: fromJson(ValueSchema, part.value) },
  }))
}

function choice({ options, multiple = false, allowCustom = false, allowNotes = false }: ChoiceQuestion) {
  const made = options.map(({ value, ...option }) =>
    create(ChoiceOptionSchema, { ...option, value: fromJson(ValueSchema, value) }),
  )
  return { options: made, multiple, allowCustom, allowNotes }
}

export function submissions(given: Submission | readonly Submission[]): AnswerSubmission[] {
  return [given].flat().map((item) => submission(item as Submission))
}

function submission(given: Submission): AnswerSubmission {
  if (typeof given === "string") return create(AnswerSubmissionSchema, { kind: { case: "text", value: given } })
  if (isMessage(given)) return given
  const value = { ...given, selectedIds: [...given.selectedIds] }
  return create(AnswerSubmissionSchema, { kind: { case: "choice", value } })
}

export function span(seconds: number | Duration): Duration {
  return typeof seconds === "number" ? durationFromMs(Math.round(seconds * 1000)) : seconds
}
