import type { Server } from '@oselya/kit';
import type { Kysely } from 'kysely';
import { Type } from 'typebox';
import { getSignedInUser } from '../access/guards.ts';
import type { CollectorClient } from '../collector/client.ts';
import { forwardRequest, readJson } from '../collector/forward.ts';
import type { ErrorCode } from '../errors.ts';
import { createMinuteBudgets } from '../limits.ts';
import type { Tables } from '../tables.ts';
import { shortenText } from '../text.ts';
import { recordAudit } from './audit.ts';

const MAX_RECORDED_BODY_LENGTH = 500;

type Operation = {
  method: 'GET' | 'POST' | 'DELETE';
  /** Path below `/admin/collector`. */
  path: string;
  /** Path below the collector's `/api/v1`. */
  target: string;
  summary: string;
  /** 200 by default. */
  status?: 201;
  errors?: readonly ErrorCode[];
};

/** Operations of the collector that admins can use here. */
const OPERATIONS: readonly Operation[] = [
  { method: 'GET', path: '/queue', target: '/admin/queue', summary: 'The queue of payloads' },
  { method: 'GET', path: '/activity', target: '/admin/activity', summary: 'Activity by the hour' },
  { method: 'GET', path: '/sources', target: '/sources', summary: 'Sources with their figures' },
  { method: 'GET', path: '/raw', target: '/admin/raw', summary: 'Payloads of a status' },
  {
    method: 'GET',
    path: '/raw/:raw_id',
    target: '/raw/:raw_id',
    summary: 'A payload with its stages',
    errors: ['raw_not_found'],
  },
  {
    method: 'POST',
    path: '/raw/:raw_id/retry',
    target: '/admin/raw/:raw_id/retry',
    summary: 'Returns a payload to the queue',
    errors: ['raw_not_found', 'not_retryable'],
  },
  {
    method: 'POST',
    path: '/raw/retry',
    target: '/admin/raw/retry',
    summary: 'Returns payloads to the queue',
  },
  { method: 'GET', path: '/api-keys', target: '/admin/api-keys', summary: 'API keys' },
  {
    method: 'POST',
    path: '/api-keys',
    target: '/admin/api-keys',
    summary: 'Creates an API key',
    status: 201,
  },
  {
    method: 'DELETE',
    path: '/api-keys/:id',
    target: '/admin/api-keys/:id',
    summary: 'Revokes an API key',
    errors: ['api_key_not_found'],
  },
];

const params = Type.Object({
  raw_id: Type.Optional(Type.String({ pattern: String.raw`^[1-9]\d{0,15}$` })),
  id: Type.Optional(Type.String({ pattern: String.raw`^\w{1,64}$` })),
});

/**
 * Registers `/admin/collector/*`, which passes requests of admins on to the collector and records them. The collector
 * validates them. Contract 6.
 * @param deps.collector A client with COLLECTOR_ADMIN_API_KEY.
 */
export function registerCollectorAdminRoutes(
  app: Server,
  { db, collector }: { db: Kysely<Tables>; collector: CollectorClient },
): void {
  // A console repeats reads every few seconds, which would fill the audit trail.
  const recordedReads = createMinuteBudgets(1);

  for (const { method, path, target, summary, status = 200, errors = [] } of OPERATIONS) {
    const description = `Request and response are those of \`${method} /api/v1${target.replaceAll(/:(\w+)/g, '{$1}')}\` of the collector.`;
    app.route({
      method,
      url: `/admin/collector${path}`,
      config: {
        access: { role: 'admin' },
        errors: [...errors, 'collector_denied', 'collector_unavailable'],
      },
      schema: {
        tags: ['admin'],
        summary,
        description,
        ...(path.includes(':') && { params }),
        ...(method === 'POST' && {
          body: Type.Unsafe<object | null>({ type: ['object', 'null'], examples: [{}] }),
        }),
        response: {
          [status]: Type.Unsafe<unknown>({
            description: 'The response of the collector.',
            examples: [{}],
          }),
        },
      },
      async handler(request, reply) {
        const { body } = request as { body?: object };
        const [, query] = request.url.split('?');
        const targetPath = target.replaceAll(
          /:(\w+)/g,
          (_, name: string) => (request.params as Record<string, string>)[name] ?? '',
        );
        const { response, headers } = await forwardRequest(
          collector,
          query === undefined ? targetPath : `${targetPath}?${query}`,
          { method, body: body ?? undefined, deniedCode: 'collector_denied' },
        );
        await record(getSignedInUser(request).id, { method, path: targetPath, body });
        const link = headers['link']?.replace(/^<(\/admin)?/, '</admin/collector');
        return reply
          .status(response.status)
          .headers({ ...headers, ...(link !== undefined && { link }) })
          .send(await readJson(response));
      },
    });
  }

  async function record(
    actorId: string,
    { method, path, body }: { method: string; path: string; body: object | undefined },
  ): Promise<void> {
    const isRead = method === 'GET';
    const readKey = `${actorId} ${path}`;
    if (isRead && recordedReads.wait(readKey) > 0) return;
    if (isRead) recordedReads.spend(readKey, 1);
    await recordAudit(db, {
      action: isRead ? 'collector_read' : 'collector_changed',
      actorId,
      userId: null,
      details: {
        request: `${method} ${path}`,
        ...(body && { body: shortenText(JSON.stringify(body), MAX_RECORDED_BODY_LENGTH) }),
      },
    });
  }
}
