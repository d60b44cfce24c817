import { type Static, Type } from 'typebox';
import { factRef } from '../memory/routes.ts';
import { nullable, timestamp } from '../schema.ts';
import type { AgentRequest } from '../agent/request.ts';
import type { ConversationSummary } from '../agent/summaries.ts';
import { exampleMessage, messageRef } from '../sessions/index.ts';
import type { Step } from '../planning/index.ts';
import { REFUSALS } from './inspection.ts';

const requestSchema = Type.Object(
  {
    model: Type.String({ description: 'Empty for the one in MODEL_CHAT.' }),
    system: Type.String({ description: 'The instructions, with what is remembered.' }),
    messages: Type.Array(
      Type.Object({
        role: Type.Enum(['user', 'assistant', 'tool']),
        content: Type.String(),
        tool_calls: Type.Optional(
          Type.Array(
            Type.Object({ id: Type.String(), name: Type.String(), input: Type.Unknown() }),
          ),
        ),
        tool_call_id: Type.Optional(Type.String()),
      }),
    ),
    tools: Type.Array(
      Type.Object({ name: Type.String(), description: Type.String(), input: Type.Unknown() }),
      { description: 'What it may ask for, with the JSON schemas of its input.' },
    ),
  },
  { description: 'The request as the model server would get it.' },
);

/** A request to the model, as the API answers it. */
export function presentRequest(request: AgentRequest): Static<typeof requestSchema> {
  return {
    model: request.model ?? '',
    system: request.system,
    messages: request.messages.map((message) => ({
      role: message.role,
      content: message.content,
      ...(message.role === 'assistant' &&
        message.toolCalls !== undefined && { tool_calls: [...message.toolCalls] }),
      ...(message.role === 'tool' && { tool_call_id: message.toolCallId }),
    })),
    tools: [...(request.tools ?? [])],
  };
}

const summarySchema = Type.Object(
  { text: Type.String(), updated_at: timestamp() },
  { description: 'What was said before the messages.' },
);

/** A summary of earlier messages, as the API answers it. */
export function presentSummary(
  summary: ConversationSummary | undefined,
): Static<typeof summarySchema> | null {
  if (summary === undefined) return null;
  return { text: summary.text, updated_at: summary.updatedAt.toISOString() };
}

/** What the model would be sent now. Contract 3, Answers. */
export const contextAnswer = Type.Object(
  {
    session_id: Type.String(),
    profile_id: Type.String(),
    system: Type.String({
      description:
        "Of the profile that answers: the session's, or where that is gone the one that new sessions get; empty where there is none for the owner.",
    }),
    memory: Type.Array(factRef, {
      description:
        'The most recently written first; none where the owner lacks `svc.memory.read_own`.',
    }),
    summary: nullable(summarySchema),
    summary_due: Type.Boolean({
      description:
        'Whether earlier messages have no room any more: the next answer begins by summarizing them.',
    }),
    messages: Type.Array(messageRef, {
      description: 'The latest that there is room for, in their order.',
    }),
    token_estimate: Type.Integer({
      description: 'About how many tokens `request` is.',
    }),
    refusal: nullable(
      Type.Enum([...REFUSALS], {
        description:
          "The code of the problem that the owner's next message meets, so that `request` is not sent; null where it would be. It goes by the role and permissions that were cached of the owner last, and so does whether facts go along.",
      }),
    ),
    request: requestSchema,
  },
  {
    description: 'What the model would be sent now.',
    examples: [
      {
        session_id: '0d2b7a3e-5a5c-4a8e-9a55-3f1f2f6f7c10',
        profile_id: 'default',
        system: 'You help one person to find a home.',
        memory: [
          {
            id: 'b5f7a1de-6f0c-4d44-9d0a-0f6a4a3f2c11',
            user_id: 'u-1',
            category: 'preferences',
            key: 'district',
            value: 'Near the park',
            source_session_id: null,
            created_at: '2026-03-02T09:15:00.000Z',
            updated_at: '2026-03-04T17:42:10.000Z',
          },
        ],
        summary: null,
        summary_due: false,
        messages: [exampleMessage],
        token_estimate: 41,
        refusal: null,
        request: {
          model: '',
          system: 'You help one person to find a home.',
          messages: [{ role: 'user', content: exampleMessage.content }],
          tools: [],
        },
      },
    ],
  },
);

const stepSchema = Type.Object({
  id: Type.String(),
  turn_id: Type.String(),
  kind: Type.String(),
  title: Type.String(),
  status: Type.String(),
  detail: nullable(Type.String()),
  started_at: timestamp(),
  finished_at: nullable(timestamp('Null while it runs.')),
});

/** A step as the API answers it. */
export function presentStep(step: Step): Static<typeof stepSchema> {
  return {
    id: step.id,
    turn_id: step.turn_id,
    kind: step.kind,
    title: step.title,
    status: step.status,
    detail: step.detail,
    started_at: step.started_at.toISOString(),
    finished_at: step.finished_at?.toISOString() ?? null,
  };
}

/** What the agent did. Contract 3, Answers. */
export const planningAnswer = Type.Object(
  {
    session_id: Type.String(),
    steps: Type.Array(stepSchema, { description: 'In their order.' }),
  },
  {
    description: 'The latest steps. `Link: …; rel="next"` leads to those before them.',
    examples: [
      {
        session_id: '0d2b7a3e-5a5c-4a8e-9a55-3f1f2f6f7c10',
        steps: [
          {
            id: '9f4c0a56-1f6e-4f5e-8f57-0a1b2c3d4e5f',
            turn_id: 't-7',
            kind: 'tool',
            title: 'search_listings',
            status: 'done',
            detail: null,
            started_at: '2026-03-04T17:42:10.000Z',
            finished_at: '2026-03-04T17:42:11.250Z',
          },
        ],
      },
    ],
  },
);
