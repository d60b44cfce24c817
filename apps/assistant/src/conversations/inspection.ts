import { createCursorCodec, type Server, paginate } from '@oselya/kit';
import { exampleMessage, exampleSession } from '@oselya/protocol';
import { type Static, Type } from 'typebox';
import { getSignedInUser } from '../access/guards.ts';
import { hasPermission, type User } from '../access/permissions.ts';
import type { AgentRequest } from './agent/request.ts';
import { loadRequest, type RequestDeps } from './agent/context.ts';
import { recordOthersData } from '../admin/audit.ts';
import { findCachedAccess } from '../identity/users.ts';
import { factRef, presentFact } from '../memory/routes.ts';
import type { Profile } from '../profiles/profile-file.ts';
import type { Profiles } from '../profiles/profiles.ts';
import { nullable, timestamp } from '../schema.ts';
import {
  latestPageQuery,
  messageRef,
  MESSAGES_PAGE_LIMITS,
  presentMessage,
  sessionParams,
} from './schemas.ts';
import { requireSession } from './session-rows.ts';
import { listSteps, type AgentStep } from './steps.ts';

const REJECTION_CODES = [
  'session_not_yours',
  'permission_missing',
  'profile_not_found',
  'admin_only',
] as const;

const requestSchema = Type.Object(
  {
    model: Type.String({ description: 'The model; empty for the one in MODEL_CHAT.' }),
    system: Type.String({ description: 'The instructions, with the remembered facts.' }),
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
      { description: 'The available tools, with the JSON schemas of their input.' },
    ),
  },
  { description: 'The request to the model server.' },
);

const contextResponse = Type.Object(
  {
    session_id: Type.String(),
    profile_id: Type.String(),
    system: Type.String({
      description:
        "The instructions of the profile that answers: the session's, or the default one if that was removed; empty if the owner may use none.",
    }),
    memory: Type.Array(factRef, {
      description: 'Facts, most recently written first; empty without `svc.memory.read_own`.',
    }),
    summary: nullable(
      Type.Object(
        { text: Type.String(), updated_at: timestamp() },
        { description: 'A summary of the conversation before the messages.' },
      ),
    ),
    summary_due: Type.Boolean({
      description: 'Whether earlier messages no longer fit: the next answer first summarizes them.',
    }),
    messages: Type.Array(messageRef, {
      description: 'The latest messages that fit, oldest first.',
    }),
    token_estimate: Type.Integer({ description: 'Estimated number of tokens of `request`.' }),
    refusal: nullable(
      Type.Enum([...REJECTION_CODES], {
        description:
          "The code of the problem that the owner's next message gets, according to the cached role and permissions; null if `request` would be sent.",
      }),
    ),
    request: requestSchema,
  },
  {
    description: 'The request that the model would get now.',
    examples: [
      {
        session_id: exampleSession.session_id,
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
  finished_at: nullable(timestamp('The time at which the step ended; null while it runs.')),
});

const planningResponse = Type.Object(
  {
    session_id: Type.String(),
    steps: Type.Array(stepSchema, { description: 'Steps, oldest first.' }),
  },
  {
    description: 'The latest steps. `Link: …; rel="next"` leads to the earlier ones.',
    examples: [
      {
        session_id: exampleSession.session_id,
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

const stepCursors = createCursorCodec(
  Type.Integer({ minimum: -Number.MAX_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }),
);

/**
 * Registers `GET /sessions/{id}/context` and `/planning` for admins. Access to sessions that the admin does not own is
 * recorded. Contract 3, Further endpoints.
 */
export function registerInspectionRoutes(
  app: Server,
  { profiles, ...deps }: RequestDeps & { profiles: Profiles },
): void {
  const { db } = deps;
  const config = { access: { role: 'admin' }, errors: ['session_not_found'] } as const;
  const tags = ['sessions', 'admin'];

  app.get(
    '/sessions/:id/context',
    {
      config,
      schema: {
        tags,
        summary: 'Returns the request that the model would get now',
        params: sessionParams,
        response: { 200: contextResponse },
      },
    },
    async (request) => {
      const { id: sessionId } = request.params;
      const admin = getSignedInUser(request);
      const { userId: id, profileId } = await readAsAdmin(admin, sessionId, 'session_context');
      const owner = id === null ? null : { id, ...(await findCachedAccess(db, id)) };
      // If its profile is missing, a session without an owner uses the default profile of an ordinary user.
      const profile = profiles.find(profileId) ?? profiles.findDefault(owner ?? { role: 'user' });
      const scope = 'everything' as const;
      const requestOptions = { sessionId, scope, owner, profile, isAnswering: false };
      const { context, summary, ...loadedRequest } = await loadRequest(deps, requestOptions);
      return {
        session_id: sessionId,
        profile_id: profileId,
        system: context.system,
        memory: context.memory.map(presentFact),
        summary: summary
          ? { text: summary.text, updated_at: summary.updatedAt.toISOString() }
          : null,
        summary_due: loadedRequest.earlierMessages !== undefined,
        messages: context.messages.map(presentMessage),
        token_estimate: loadedRequest.tokenEstimate,
        refusal: findRejection(owner, profile),
        request: presentRequest(loadedRequest.request),
      };
    },
  );

  app.get(
    '/sessions/:id/planning',
    {
      config,
      schema: {
        tags,
        summary: "Returns the agent's steps",
        params: sessionParams,
        querystring: latestPageQuery,
        response: { 200: planningResponse },
      },
    },
    async (request, reply) => {
      const { id: sessionId } = request.params;
      const { limit = MESSAGES_PAGE_LIMITS.limit, cursor } = request.query;
      const before = stepCursors.read(cursor);
      await readAsAdmin(getSignedInUser(request), sessionId, 'session_planning');
      const rows = await listSteps(db, { sessionId, before, limit: limit + 1 });
      const getCursor = ({ position }: { position: number }) => stepCursors.write(position);
      const page = paginate(rows, { limit, getCursor, request, reply });
      return { session_id: sessionId, steps: page.toReversed().map(presentStep) };
    },
  );

  async function readAsAdmin(admin: User, sessionId: string, data: string) {
    const session = await requireSession(db, { sessionId, scope: 'everything' });
    await recordOthersData(db, 'others_data_read', {
      actorId: admin.id,
      ownerId: session.userId,
      details: { data, session_id: sessionId },
    });
    return session;
  }

  /** Returns the error code if the owner's next message would be denied, otherwise null. */
  function findRejection(
    owner: Pick<User, 'role' | 'permissions'> | null,
    profile: Profile | undefined,
  ): (typeof REJECTION_CODES)[number] | null {
    if (owner === null) return 'session_not_yours';
    if (!hasPermission(owner, 'svc.profiles.use')) return 'permission_missing';
    if (profile === undefined) return 'profile_not_found';
    return profiles.canUse(owner, profile) ? null : 'admin_only';
  }
}

function presentRequest(request: AgentRequest): Static<typeof requestSchema> {
  const { model = '', system, messages, tools = [] } = request;
  return {
    model,
    system,
    messages: messages.map((message) => ({
      role: message.role,
      content: message.content,
      ...(message.role === 'assistant' &&
        message.toolCalls !== undefined && { tool_calls: [...message.toolCalls] }),
      ...(message.role === 'tool' && { tool_call_id: message.toolCallId }),
    })),
    tools: [...tools],
  };
}

function presentStep({
  position: _position,
  ...row
}: AgentStep & { position: number }): Static<typeof stepSchema> {
  return {
    ...row,
    started_at: row.started_at.toISOString(),
    finished_at: row.finished_at?.toISOString() ?? null,
  };
}
