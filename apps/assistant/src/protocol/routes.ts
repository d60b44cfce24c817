import type { Server } from '@oselya/kit';
import { protocolDocument } from './document.ts';

/** `GET /asyncapi.json`: the document of the WebSocket protocol, for anybody, as `/openapi.json` is. */
export function protocolRoutes(
  app: Server,
  described: Parameters<typeof protocolDocument>[0],
): void {
  const document = protocolDocument(described);
  app.get(
    '/asyncapi.json',
    { config: { access: 'public' }, schema: { hide: true } },
    () => document,
  );
}
