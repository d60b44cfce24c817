import { type Server, toPage } from '@oselya/kit';
import { guardRefusals, signedIn } from '../access/guards.ts';
import { problemAnswers } from '../errors.ts';
import { okAnswer } from '../schema.ts';
import { type Position, positions } from '../pages.ts';
import {
  factBody,
  factParams,
  factRef,
  factsAnswer,
  factSchema,
  factsQuery,
  PAGE,
  presentFact,
  presentSummary,
  summaryAnswer,
  summaryQuery,
  summarySchema,
} from './schemas.ts';
import type { Memory } from './service.ts';

const tags = ['memory'];
const refusals = [...guardRefusals, 'permission_missing', 422] as const;

/** The cursor of the page that goes on after a row. */
export const cursorOf = ({ position }: { position: Position }): string => positions.write(position);

/** `/memory/*`: what the assistant knows of the user. Contract 3, Further endpoints. */
export function memoryRoutes(app: Server, memory: Memory): void {
  app.addSchema(factSchema);
  app.addSchema(summarySchema);
  factRoutes(app, memory);

  app.get(
    '/memory/summary',
    {
      // Which permission it takes depends on the scope: the service asks for it.
      config: { access: 'signed-in' },
      schema: {
        tags,
        summary: "A summary of one's memory, or of everybody's",
        querystring: summaryQuery,
        response: { 200: summaryAnswer, ...problemAnswers(...refusals) },
      },
    },
    async (request, reply) => {
      const user = signedIn(request);
      const { scope, limit = PAGE.limit, cursor } = request.query;
      if (scope !== 'all') return presentSummary(await memory.findSummary(user));
      const after = positions.read(cursor);
      const rows = await memory.listSummaries(user, { limit: limit + 1, after });
      return toPage(rows, { limit, cursorOf, request, reply }).map(presentSummary);
    },
  );
}

function factRoutes(app: Server, memory: Memory): void {
  const config = { access: { permission: 'svc.memory.read_own' } } as const;

  app.get(
    '/memory/facts',
    {
      // Which permission it takes depends on the scope: the service asks for it.
      config: { access: 'signed-in' },
      schema: {
        tags,
        summary: "One's facts, or everybody's",
        querystring: factsQuery,
        response: { 200: factsAnswer, ...problemAnswers(...refusals, 'rate_limited') },
      },
    },
    async (request, reply) => {
      const { scope = 'own', category, q, limit = PAGE.limit, cursor } = request.query;
      const after = positions.read(cursor);
      const asked = { scope, category, q, limit: limit + 1, after };
      const rows = await memory.listFacts(signedIn(request), asked);
      return toPage(rows, { limit, cursorOf, request, reply }).map(presentFact);
    },
  );

  app.put(
    '/memory/facts/:category/:key',
    {
      config,
      schema: {
        tags,
        summary: "Writes a fact of one's own",
        params: factParams,
        body: factBody,
        response: {
          200: { ...factRef, description: 'It replaced the value of the fact of that name.' },
          201: { ...factRef, description: 'It is new.' },
          ...problemAnswers(400, ...refusals, 'cross_site_request', 'memory_full', 413, 415),
        },
      },
    },
    async (request, reply) => {
      const { fact, previous } = await memory.putFact(signedIn(request), {
        ...request.params,
        ...request.body,
      });
      return reply.status(previous === undefined ? 201 : 200).send(presentFact(fact));
    },
  );

  app.delete(
    '/memory/facts/:category/:key',
    {
      config,
      schema: {
        tags,
        summary: "Deletes a fact of one's own",
        params: factParams,
        response: {
          200: okAnswer,
          ...problemAnswers(...refusals, 'cross_site_request', 'fact_not_found'),
        },
      },
    },
    async (request) => {
      await memory.deleteFact(signedIn(request), request.params);
      return { ok: true as const };
    },
  );
}
