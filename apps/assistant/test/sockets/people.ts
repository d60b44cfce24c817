import type { Server } from '@oselya/kit';
import { OLENA } from '../scripted-provider.ts';

/** What the provider says of a user of this client. */
export function person(sub: string, permissions: string[] = [], roles = ['svc_user']) {
  return {
    ...OLENA,
    sub,
    email: `${sub}@example.test`,
    client_access_list: [{ client_id: 'oselya', role_ids: roles, permission_ids: permissions }],
  };
}

/** Lets an instance listen on a free port, and gives its address. */
export const listening = (app: Server) => app.listen({ port: 0, host: '127.0.0.1' });
