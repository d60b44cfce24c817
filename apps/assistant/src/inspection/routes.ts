import { cursors, type Server, toPage } from '@oselya/kit';
import { Type } from 'typebox';
import { guardRefusals, signedIn } from '../access/guards.ts';
import { problemAnswers } from '../errors.ts';
import { presentFact } from '../memory/routes.ts';
import type { Inspection } from './inspection.ts';
import {
  contextAnswer,
  planningAnswer,
  presentRequest,
  presentStep,
  presentSummary,
} from './schemas.ts';
import { latestQuery, MESSAGES_PAGE, presentMessage, sessionParams } from '../sessions/index.ts';

const refusals = [...guardRefusals, 'admin_only', 'session_not_found', 422] as const;

const stepNumbers = cursors(
  Type.Integer({ minimum: -Number.MAX_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }),
);

/**
 * `GET /sessions/{id}/context` and `/planning`: what stands behind a conversation. Specification 000,
 * Ownership rules on session endpoints.
 */
export function inspectionRoutes(app: Server, inspection: Inspection): void {
  const config = { access: { role: 'admin' } } as const;
  const tags = ['sessions', 'admin'];

  app.get(
    '/sessions/:id/context',
    {
      config,
      schema: {
        tags,
        summary: 'What the model would be sent now',
        params: sessionParams,
        response: { 200: contextAnswer, ...problemAnswers(...refusals) },
      },
    },
    async (request) => {
      const {
        sessionId,
        profileId,
        refusal,
        context,
        tokenEstimate,
        summary,
        earlier,
        request: asked,
      } = await inspection.readContext(signedIn(request), request.params.id);
      return {
        session_id: sessionId,
        profile_id: profileId,
        system: context.system,
        memory: context.memory.map(presentFact),
        summary: presentSummary(summary),
        summary_due: earlier !== undefined,
        messages: context.messages.map(presentMessage),
        token_estimate: tokenEstimate,
        refusal,
        request: presentRequest(asked),
      };
    },
  );

  app.get(
    '/sessions/:id/planning',
    {
      config,
      schema: {
        tags,
        summary: "The agent's steps",
        params: sessionParams,
        querystring: latestQuery,
        response: { 200: planningAnswer, ...problemAnswers(...refusals) },
      },
    },
    async (request, reply) => {
      const { id: sessionId } = request.params;
      const { limit = MESSAGES_PAGE.limit, cursor } = request.query;
      const before = stepNumbers.read(cursor);
      const asked = { sessionId, before, limit: limit + 1 };
      const rows = await inspection.listSteps(signedIn(request), asked);
      const cursorOf = ({ position }: { position: number }) => stepNumbers.write(position);
      const page = toPage(rows, { limit, cursorOf, request, reply });
      return { session_id: sessionId, steps: page.toReversed().map(presentStep) };
    },
  );
}
