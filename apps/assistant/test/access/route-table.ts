import type { Permission } from '../../src/access/permissions.ts';

/**
 * Who walks: somebody without a session, the owner of what is asked for (who has no permission at all),
 * another user with what users have by default, a user with the one permission of the route, an admin.
 */
export const visitors = ['nobody', 'owner', 'stranger', 'holder', 'admin'] as const;
export type Visitor = (typeof visitors)[number];

/** A request that each visitor sends, and what becomes of it. */
export type Row = {
  /** The route, as the router has it. */
  route: string;
  /** The address, where the route's pattern is none. */
  url?: string;
  payload?: object | string;
  /** What the holder has. */
  holds?: Permission;
  expect: Record<Visitor, number>;
  /** To whom the answer tells something of the owner's. */
  reveals?: readonly Visitor[];
};

/** The owner's things, which `route-walk.db.test.ts` puts into the database. */
export const OWNED = {
  userId: 'u-owner',
  sessionId: 's-owner',
  fileName: 'notes.txt',
  category: 'home',
  key: 'city',
  savedSearchId: 'w-owner',
  /** Stands in the address of the owner's sign-in, whose id nobody knows before. */
  signIn: ':own-sign-in',
};

/** A session of an older system, which has no owner. */
export const LEGACY_SESSION = 's-legacy';

const everybody = (status: number): Row['expect'] => ({
  nobody: status,
  owner: status,
  stranger: status,
  holder: status,
  admin: status,
});
const signedIn = (status: number) => ({ ...everybody(status), nobody: 401 });
const admins = (status: number) => ({ ...everybody(403), nobody: 401, admin: status });
const holders = (status: number) => ({ ...admins(status), holder: status });
/** The route's permission is one that users have by default; the owner has none. */
const users = (status: number) => ({ ...holders(status), stranger: status });
const owners = (status: number) => ({ ...admins(status), owner: status });
const ownersAndHolders = (status: number) => ({ ...owners(status), holder: status });

const session = `/sessions/${OWNED.sessionId}`;
const file = `${session}/files/${OWNED.fileName}`;
const legacy = `/sessions/${LEGACY_SESSION}`;
const fact = `/memory/facts/${OWNED.category}/${OWNED.key}`;
const savedSearch = `/saved-searches/${OWNED.savedSearchId}`;
const user = `/admin/users/${OWNED.userId}`;

/** Pages, documents and figures for anybody. */
const open: Row[] = [
  { route: 'GET /', expect: everybody(200), reveals: ['owner'] },
  { route: 'GET /favicon.ico', expect: everybody(200) },
  { route: 'GET /openapi.json', expect: everybody(200) },
  { route: 'GET /asyncapi.json', expect: everybody(200) },
  { route: 'GET /metrics', expect: everybody(200) },
  { route: 'GET /health', expect: everybody(200) },
  { route: 'GET /health/ready', expect: everybody(200) },
  { route: 'GET /health/live', expect: everybody(200) },
  { route: 'GET /docs', expect: everybody(200) },
  { route: 'GET /docs/', expect: everybody(200) },
  { route: 'GET /docs/json', expect: everybody(200) },
  { route: 'GET /docs/yaml', expect: everybody(200) },
  { route: 'GET /docs/static/index.html', expect: everybody(302) },
  { route: 'GET /docs/static/swagger-initializer.js', expect: everybody(200) },
  { route: 'GET /docs/*', url: '/docs/static/swagger-ui.css', expect: everybody(200) },
];

const signIn: Row[] = [
  { route: 'GET /auth/login', expect: everybody(302) },
  { route: 'GET /auth/callback', expect: everybody(400) },
  { route: 'GET /auth/mobile-done', url: '/auth/mobile-done', expect: everybody(422) },
  {
    route: 'GET /auth/mobile-done',
    url: `/auth/mobile-done?sid=${'A'.repeat(43)}`,
    expect: everybody(200),
  },
  { route: 'GET /auth/terminal', expect: everybody(400) },
  { route: 'GET /auth/terminal/confirm', expect: everybody(400) },
  { route: 'POST /auth/terminal/confirm', expect: everybody(400) },
  { route: 'POST /auth/terminal/refuse', expect: everybody(400) },
  {
    route: 'POST /auth/terminal/token',
    payload: { code: 'unknown', code_verifier: 'A'.repeat(43) },
    expect: everybody(400),
  },
  { route: 'POST /auth/logout', expect: everybody(200) },
  { route: 'GET /auth/me', expect: signedIn(200), reveals: ['owner'] },
  { route: 'GET /auth/sessions', expect: signedIn(200), reveals: ['owner'] },
  {
    route: 'DELETE /auth/sessions/:id',
    url: `/auth/sessions/${OWNED.signIn}`,
    expect: { ...signedIn(404), owner: 200 },
  },
];

const sessions: Row[] = [
  {
    route: 'GET /sessions',
    holds: 'svc.sessions.read_all',
    expect: signedIn(200),
    reveals: ['owner', 'holder', 'admin'],
  },
  {
    route: 'GET /sessions/:id',
    url: session,
    holds: 'svc.sessions.read_all',
    expect: ownersAndHolders(200),
    reveals: ['owner', 'holder', 'admin'],
  },
  { route: 'GET /sessions/:id', url: '/sessions/s-none', expect: signedIn(404) },
  {
    route: 'PATCH /sessions/:id',
    url: session,
    payload: { pinned: true },
    holds: 'svc.sessions.read_all',
    expect: owners(200),
    reveals: ['owner', 'admin'],
  },
  {
    route: 'DELETE /sessions/:id',
    url: session,
    holds: 'svc.sessions.delete_all',
    expect: ownersAndHolders(200),
  },
  {
    route: 'GET /sessions/:id/context',
    url: `${session}/context`,
    holds: 'svc.debug.access',
    expect: admins(200),
    reveals: ['admin'],
  },
  {
    route: 'GET /sessions/:id/planning',
    url: `${session}/planning`,
    holds: 'svc.debug.access',
    expect: admins(200),
    reveals: ['admin'],
  },
  {
    route: 'GET /sessions/:id/files',
    url: `${session}/files`,
    holds: 'svc.files.read_all',
    expect: ownersAndHolders(200),
  },
  {
    route: 'GET /sessions/:id/files/:name',
    url: file,
    holds: 'svc.files.read_all',
    expect: ownersAndHolders(200),
    reveals: ['owner', 'holder', 'admin'],
  },
  {
    route: 'PUT /sessions/:id/files/:name',
    url: file,
    payload: 'text',
    holds: 'svc.files.read_all',
    expect: owners(200),
  },
  {
    route: 'DELETE /sessions/:id/files/:name',
    url: file,
    holds: 'svc.sessions.delete_all',
    expect: owners(200),
  },
  { route: 'GET /ws', expect: everybody(426) },
];

const memory: Row[] = [
  { route: 'GET /memory/facts', holds: 'svc.memory.read_own', expect: users(200) },
  {
    route: 'GET /memory/facts',
    url: '/memory/facts?scope=all',
    holds: 'svc.memory.read_all',
    expect: holders(200),
    reveals: ['holder', 'admin'],
  },
  {
    route: 'PUT /memory/facts/:category/:key',
    url: fact,
    payload: { value: 'Lviv' },
    holds: 'svc.memory.read_own',
    expect: users(201),
  },
  {
    route: 'DELETE /memory/facts/:category/:key',
    url: fact,
    holds: 'svc.memory.read_own',
    expect: users(404),
  },
  { route: 'GET /memory/summary', holds: 'svc.memory.read_own', expect: users(200) },
  {
    route: 'GET /memory/summary',
    url: '/memory/summary?scope=all',
    holds: 'svc.memory.read_all',
    expect: holders(200),
    reveals: ['holder', 'admin'],
  },
];

const savedSearches: Row[] = [
  { route: 'GET /saved-searches', holds: 'svc.tools.use', expect: users(200) },
  {
    route: 'POST /saved-searches',
    payload: { name: 'x', search: { query: 'x' }, session_id: OWNED.sessionId },
    holds: 'svc.tools.use',
    // Nobody has others' sessions reported to, an admin neither.
    expect: { ...signedIn(403) },
  },
  {
    route: 'POST /saved-searches',
    payload: { name: 'x', search: { query: 'x' } },
    holds: 'svc.tools.use',
    // A session is made, which needs svc.profiles.use as well.
    expect: { ...users(201), holder: 403 },
  },
  {
    route: 'GET /saved-searches/:id',
    url: savedSearch,
    holds: 'svc.tools.use',
    expect: admins(200),
    reveals: ['admin'],
  },
  {
    route: 'GET /saved-searches/:id',
    url: '/saved-searches/w-none',
    holds: 'svc.tools.use',
    expect: users(404),
  },
  {
    route: 'PATCH /saved-searches/:id',
    url: savedSearch,
    payload: { paused: true },
    holds: 'svc.tools.use',
    expect: admins(200),
    reveals: ['admin'],
  },
  {
    route: 'DELETE /saved-searches/:id',
    url: savedSearch,
    holds: 'svc.tools.use',
    expect: admins(200),
  },
];

const admin: Row[] = [
  {
    route: 'GET /admin/sessions',
    holds: 'svc.sessions.read_all',
    expect: admins(200),
    reveals: ['admin'],
  },
  {
    route: 'GET /admin/users',
    holds: 'svc.admin.access',
    expect: admins(200),
    reveals: ['admin'],
  },
  {
    route: 'PATCH /admin/users/:user_id/role',
    url: `${user}/role`,
    payload: { role: 'admin' },
    holds: 'svc.admin.access',
    expect: admins(200),
  },
  {
    route: 'POST /admin/users/:user_id/sign-out',
    url: `${user}/sign-out`,
    holds: 'svc.admin.access',
    expect: holders(200),
  },
  {
    route: 'GET /admin/audit',
    holds: 'svc.admin.access',
    expect: holders(200),
  },
  { route: 'GET /admin/webhooks', holds: 'svc.admin.access', expect: holders(200) },
  {
    route: 'GET /admin/memory',
    holds: 'svc.memory.read_all',
    expect: holders(200),
    reveals: ['holder', 'admin'],
  },
  { route: 'GET /me/export', expect: signedIn(200), reveals: ['owner'] },
  { route: 'DELETE /me/data', expect: signedIn(200) },
  { route: 'GET /profiles', holds: 'svc.profiles.use', expect: users(200) },
  { route: 'GET /admin/profiles', holds: 'svc.profiles.manage', expect: holders(200) },
  {
    route: 'PATCH /admin/profiles/:profile_id/availability',
    url: '/admin/profiles/default/availability',
    payload: { is_admin_only: true },
    holds: 'svc.profiles.manage',
    expect: holders(200),
  },
  { route: 'POST /auth/backchannel-logout', payload: 'logout_token=x', expect: everybody(404) },
  { route: 'POST /webhooks/idp', payload: { event: 'user.blocked' }, expect: everybody(400) },
];

/** What has no owner is for admins alone, whatever else somebody may do. */
const ownedByNobody: Row[] = sessions
  .filter(({ url }) => url?.startsWith(session))
  .map(({ route, url = '', payload, holds, expect }) => ({
    route,
    url: url.replace(session, legacy),
    ...(payload !== undefined && { payload }),
    ...(holds !== undefined && { holds }),
    expect: admins(expect.admin),
  }));

/** Every route, with who may use it. Specification 000, Permission check rules and Ownership rules. */
export const rows: readonly Row[] = [
  ...open,
  ...signIn,
  ...sessions,
  ...ownedByNobody,
  ...memory,
  ...savedSearches,
  ...admin,
];
