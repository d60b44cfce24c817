import type { Permission } from '../../src/access/permissions.ts';

/**
 * Senders of requests. The owner has no permissions, the stranger has the default permissions, and the holder has the
 * permission of the row.
 */
export const visitors = ['signedOut', 'owner', 'stranger', 'holder', 'admin'] as const;
export type Visitor = (typeof visitors)[number];

/** Request with its expected status for each visitor, and the visitors who see the owner's data in the response. */
export type Row = {
  route: string;
  method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  pattern: string;
  url: string;
  payload: object | string | undefined;
  holds: Permission | undefined;
  expect: Record<Visitor, number>;
  reveals: readonly string[];
};

export const OWNED = {
  userId: 'u-owner',
  sessionId: 's-owner',
  fileName: 'notes.txt',
  category: 'home',
  key: 'city',
  savedSearchId: 'w-owner',
  boardId: 'b-owner',
  commentId: 'c-owner',
  listingId: 7,
  /** Placeholder for the public ID of the owner's sign-in. */
  signIn: '-own-sign-in-',
};

/** ID of a session of an older system, without an owner. */
export const LEGACY_SESSION = 's-legacy';

// Route, optionally with # and a URL in place of the owner's | permission of the holder |
// status for all visitors, or for each of them | visitors who see the owner's data.
const TABLE = `
GET /                                      |                         | 200                 | owner
GET /favicon.ico                           |                         | 200                 |
GET /openapi.json                          |                         | 200                 |
GET /asyncapi.json                         |                         | 200                 |
GET /metrics                               |                         | 200                 |
GET /health                                |                         | 200                 |
GET /health/ready                          |                         | 200                 |
GET /health/live                           |                         | 200                 |
GET /docs                                  |                         | 200                 |
GET /docs/                                 |                         | 200                 |
GET /docs/json                             |                         | 200                 |
GET /docs/yaml                             |                         | 200                 |
GET /docs/static/index.html                |                         | 302                 |
GET /docs/static/swagger-initializer.js    |                         | 200                 |
GET /docs/*#/docs/static/swagger-ui.css    |                         | 200                 |
GET /auth/login                            |                         | 302                 |
GET /auth/callback                         |                         | 400                 |
GET /auth/mobile-done                      |                         | 422                 |
GET /auth/terminal                         |                         | 400                 |
GET /auth/terminal/confirm                 |                         | 400                 |
POST /auth/terminal/confirm                |                         | 400                 |
POST /auth/terminal/refuse                 |                         | 400                 |
POST /auth/terminal/token                  |                         | 400                 |
POST /auth/backchannel-logout              |                         | 404                 |
POST /auth/logout                          |                         | 200                 |
GET /auth/me                               |                         | 401 200 200 200 200 | owner
GET /auth/sessions                         |                         | 401 200 200 200 200 | owner
DELETE /auth/sessions/:id                  |                         | 401 200 404 404 404 |
GET /sessions                              | svc.sessions.read_all   | 401 200 200 200 200 | owner holder admin
GET /sessions/:id                          | svc.sessions.read_all   | 401 200 403 200 200 | owner holder admin
GET /sessions/:id#/sessions/s-none         |                         | 401 404 404 404 404 |
PATCH /sessions/:id                        | svc.sessions.read_all   | 401 200 403 403 200 | owner admin
DELETE /sessions/:id                       | svc.sessions.delete_all | 401 200 403 200 200 |
GET /sessions/:id/context                  | svc.debug.access        | 401 403 403 403 200 | admin
GET /sessions/:id/planning                 | svc.debug.access        | 401 403 403 403 200 | admin
GET /sessions/:id/files                    | svc.files.read_all      | 401 200 403 200 200 |
GET /sessions/:id/files/:name              | svc.files.read_all      | 401 200 403 200 200 | owner holder admin
PUT /sessions/:id/files/:name              | svc.files.read_all      | 401 200 403 403 200 |
DELETE /sessions/:id/files/:name           | svc.sessions.delete_all | 401 200 403 403 200 |
GET /ws                                    |                         | 426                 |
GET /memory/facts                          | svc.memory.read_own     | 401 403 200 200 200 |
GET /memory/facts#/memory/facts?scope=all  | svc.memory.read_all     | 401 403 403 200 200 | holder admin
PUT /memory/facts/:category/:key           | svc.memory.read_own     | 401 403 201 201 201 |
DELETE /memory/facts/:category/:key        | svc.memory.read_own     | 401 403 404 404 404 |
GET /memory/summary                        | svc.memory.read_own     | 401 403 200 200 200 |
GET /memory/summary#/memory/summary?scope=all | svc.memory.read_all  | 401 403 403 200 200 | holder admin
GET /saved-searches                        | svc.tools.use           | 401 403 200 200 200 |
POST /saved-searches                       | svc.tools.use           | 401 403 201 403 201 |
GET /saved-searches/:id                    | svc.tools.use           | 401 403 403 403 200 | admin
GET /saved-searches/:id#/saved-searches/w-none | svc.tools.use       | 401 403 404 404 404 |
PATCH /saved-searches/:id                  | svc.tools.use           | 401 403 403 403 200 | admin
DELETE /saved-searches/:id                 | svc.tools.use           | 401 403 403 403 200 |
POST /listings/search                      | svc.tools.use           | 401 403 200 200 200 |
POST /listings/browse                      | svc.tools.use           | 401 403 200 200 200 |
POST /listings/facets                      | svc.tools.use           | 401 403 200 200 200 |
POST /listings/points                      | svc.tools.use           | 401 403 200 200 200 |
GET /listings/suggest#/listings/suggest?q=x | svc.tools.use          | 401 403 200 200 200 |
POST /listings/batch                       | svc.tools.use           | 401 403 200 200 200 |
GET /listings/:id#/listings/7              | svc.tools.use           | 401 403 200 200 200 |
GET /listings/:id/:part#/listings/7/duplicates | svc.tools.use       | 401 403 200 200 200 |
GET /images/:sha256#/images/0              |                         | 401 403 403 403 403 |
GET /saved-searches/:id/finds              | svc.tools.use           | 401 403 403 403 200 |
GET /me/search#/me/search?q=secret         |                         | 401 200 200 200 200 | owner
GET /marks                                 | svc.tools.use           | 401 403 200 200 200 |
PUT /listings/:id/mark                     | svc.tools.use           | 401 403 200 200 200 |
DELETE /listings/:id/mark                  | svc.tools.use           | 401 403 404 404 404 |
GET /boards                                | svc.tools.use           | 401 403 200 200 200 |
POST /boards                               | svc.tools.use           | 401 403 201 201 201 |
GET /boards/:id                            | svc.tools.use           | 401 403 404 404 200 | admin
PATCH /boards/:id                          | svc.tools.use           | 401 403 404 404 200 |
DELETE /boards/:id                         | svc.tools.use           | 401 403 404 404 200 |
POST /boards/:id/members                   | svc.tools.use           | 401 403 404 404 200 |
DELETE /boards/:id/members/:user_id        | svc.tools.use           | 401 403 404 404 409 |
POST /boards/:id/items                     | svc.tools.use           | 401 403 404 404 200 |
DELETE /boards/:id/items/:listing_id       | svc.tools.use           | 401 403 404 404 200 |
PUT /boards/:id/items/:listing_id/verdict  | svc.tools.use           | 401 403 404 404 404 |
GET /boards/:id/items/:listing_id/comments | svc.tools.use           | 401 403 404 404 200 | admin
POST /boards/:id/items/:listing_id/comments | svc.tools.use          | 401 403 404 404 201 |
DELETE /boards/:id/items/:listing_id/comments/:comment_id | svc.tools.use | 401 403 404 404 200 |
GET /admin/inventory                       | svc.admin.access        | 401 403 403 403 404 |
GET /admin/collector/queue                 | svc.admin.access        | 401 403 403 403 200 |
GET /admin/collector/activity              | svc.admin.access        | 401 403 403 403 200 |
GET /admin/collector/sources               | svc.admin.access        | 401 403 403 403 200 |
GET /admin/collector/raw#/admin/collector/raw?status=failed | svc.admin.access | 401 403 403 403 200 |
GET /admin/collector/raw/:raw_id           | svc.admin.access        | 401 403 403 403 200 |
POST /admin/collector/raw/:raw_id/retry    | svc.admin.access        | 401 403 403 403 200 |
POST /admin/collector/raw/retry            | svc.admin.access        | 401 403 403 403 200 |
GET /admin/collector/api-keys              | svc.admin.access        | 401 403 403 403 200 |
POST /admin/collector/api-keys             | svc.admin.access        | 401 403 403 403 201 |
DELETE /admin/collector/api-keys/:id       | svc.admin.access        | 401 403 403 403 200 |
GET /admin/sessions                        | svc.sessions.read_all   | 401 403 403 403 200 | admin
GET /admin/users                           | svc.admin.access        | 401 403 403 403 200 | admin
PATCH /admin/users/:user_id/role           | svc.admin.access        | 401 403 403 403 200 |
POST /admin/users/:user_id/sign-out        | svc.admin.access        | 401 403 403 200 200 |
GET /admin/audit                           | svc.admin.access        | 401 403 403 200 200 |
GET /admin/webhooks                        | svc.admin.access        | 401 403 403 200 200 |
GET /admin/memory                          | svc.memory.read_all     | 401 403 403 200 200 | holder admin
GET /me/export                             |                         | 401 200 200 200 200 | owner
DELETE /me/data                            |                         | 401 200 200 200 200 |
GET /me/settings                           |                         | 401 200 200 200 200 |
PATCH /me/settings                         |                         | 401 200 200 200 200 |
GET /profiles                              | svc.profiles.use        | 401 403 200 200 200 |
GET /admin/profiles                        | svc.profiles.manage     | 401 403 403 200 200 |
PATCH /admin/profiles/:profile_id/availability | svc.profiles.manage | 401 403 403 200 200 |
POST /webhooks/idp                         |                         | 400                 |
`;

const PAYLOADS: Record<string, object | string> = {
  'POST /auth/terminal/token': { code: 'unknown', code_verifier: 'A'.repeat(43) },
  'POST /auth/backchannel-logout': 'logout_token=x',
  'PATCH /sessions/:id': { pinned: true },
  'PUT /sessions/:id/files/:name': 'text',
  'PUT /memory/facts/:category/:key': { value: 'Lviv' },
  'POST /saved-searches': { name: 'x', search: { query: 'x' } },
  'PATCH /saved-searches/:id': { paused: true },
  'POST /listings/search': { query: 'x' },
  'POST /listings/browse': {},
  'POST /listings/facets': {},
  'POST /listings/points': {},
  'POST /listings/batch': { ids: [7] },
  'PATCH /me/settings': { theme: 'dark' },
  'PUT /listings/:id/mark': { seen: true },
  'POST /boards': { name: 'x' },
  'PATCH /boards/:id': { name: 'x' },
  'POST /boards/:id/members': { user_id: 'u-stranger', role: 'viewer' },
  'POST /boards/:id/items': { listing_id: OWNED.listingId },
  'PUT /boards/:id/items/:listing_id/verdict': { verdict: 'yes' },
  'POST /boards/:id/items/:listing_id/comments': { text: 'x' },
  'POST /admin/collector/raw/retry': { status: 'failed' },
  'POST /admin/collector/api-keys': { name: 'x', scopes: ['search'] },
  'PATCH /admin/users/:user_id/role': { role: 'admin' },
  'PATCH /admin/profiles/:profile_id/availability': { is_admin_only: true },
  'POST /webhooks/idp': { event: 'user.blocked' },
};

const buildOwnedUrl = (pattern: string) =>
  pattern
    .replace('/auth/sessions/:id', `/auth/sessions/${OWNED.signIn}`)
    .replace('/saved-searches/:id', `/saved-searches/${OWNED.savedSearchId}`)
    .replace('/boards/:id', `/boards/${OWNED.boardId}`)
    .replace(':comment_id', OWNED.commentId)
    .replace(':listing_id', String(OWNED.listingId))
    .replace('/listings/:id', `/listings/${OWNED.listingId}`)
    .replace(':raw_id', '1')
    .replace('/api-keys/:id', '/api-keys/x')
    .replace(':id', OWNED.sessionId)
    .replace(':name', OWNED.fileName)
    .replace(':category', OWNED.category)
    .replace(':key', OWNED.key)
    .replace(':user_id', OWNED.userId)
    .replace(':profile_id', 'default');

const tableRows = TABLE.trim()
  .split('\n')
  .map((line): Row => {
    const [target = '', holds = '', statuses = '', reveals = ''] = line
      .split('|')
      .map((cell) => cell.trim());
    const [route = '', address] = target.split('#');
    const [method = '', pattern = ''] = route.split(' ');
    const statusCodes = statuses.split(' ').map(Number);
    const expect = Object.fromEntries(
      visitors.map((name, index) => [name, statusCodes[index] ?? statusCodes[0]]),
    );
    return {
      route,
      method: method as Row['method'],
      pattern,
      url: address ?? buildOwnedUrl(pattern),
      payload: PAYLOADS[route],
      holds: holds === '' ? undefined : (holds as Permission),
      expect: expect as Row['expect'],
      reveals: reveals.split(' '),
    };
  });

/** All routes with their access. See specification 000, Permission check rules and Ownership rules. */
export const rows: readonly Row[] = [
  ...tableRows,
  // Only admins can access a session without an owner.
  ...tableRows.flatMap((row) => {
    if (!row.url.startsWith(`/sessions/${OWNED.sessionId}`)) return [];
    const { admin } = row.expect;
    const expect = { signedOut: 401, owner: 403, stranger: 403, holder: 403, admin };
    return [{ ...row, expect, url: row.url.replace(OWNED.sessionId, LEGACY_SESSION), reveals: [] }];
  }),
  // Not even an admin can send digests to another user's session.
  ...tableRows.flatMap((row) => {
    if (row.route !== 'POST /saved-searches') return [];
    const payload = { name: 'x', search: { query: 'x' }, session_id: OWNED.sessionId };
    const expect = { signedOut: 401, owner: 403, stranger: 403, holder: 403, admin: 403 };
    return [{ ...row, payload, expect }];
  }),
];
