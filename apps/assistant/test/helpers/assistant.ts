import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { connect, migrate } from '@oselya/db';
import { deferCleanup } from '@oselya/testing';
import { openTestDatabase } from '@oselya/testing/database';
import { createLogger, type Server } from '@oselya/kit';
import { type Kysely, type KyselyPlugin, sql } from 'kysely';
import type { AuditAction } from '../../src/admin/audit.ts';
import { createApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import type { Tables } from '../../src/tables.ts';
import { type ScriptedProvider, startScriptedProvider } from '../scripted-provider.ts';

const KEY = Buffer.alloc(32, 7).toString('base64url');

export type TestAssistant = Awaited<ReturnType<typeof openAssistant>>;

/**
 * Opens a database and a scripted provider for a test file, with a function that creates instances of the app.
 * @param legacySchema SQL that creates the tables of an older system before the first migration.
 */
export async function openAssistant(env: Record<string, string> = {}, legacySchema?: string) {
  const migrations = {
    component: 'assistant',
    folder: fileURLToPath(new URL('../../migrations', import.meta.url)),
  };
  const database = await openTestDatabase<Tables>(legacySchema === undefined ? [migrations] : []);
  if (legacySchema !== undefined) {
    await database.pool.query(legacySchema);
    await migrate(database, migrations);
  }
  const provider = await startScriptedProvider();
  const lines: string[] = [];

  const settings = (overrides: Record<string, string> = {}): Record<string, string> => ({
    BASE_URL: 'http://assistant.test',
    IDP_BASE_URL: provider.url,
    IDP_CLIENT_ID: provider.client.id,
    IDP_CLIENT_SECRET: provider.client.secret,
    SVC_AUTH_ENCRYPTION_KEY: KEY,
    SAVED_SEARCH_POLL_SECONDS: '0',
    ...env,
    ...overrides,
  });

  /** @param onStatement Called with the kind of each statement of the instance when the result arrives. */
  async function createInstance(
    overrides: Record<string, string> = {},
    onStatement: (statement: Statement) => void = () => undefined,
  ): Promise<Server> {
    const instanceDatabase =
      database.url === undefined
        ? undefined
        : await connect<Tables>({ url: database.url, maxConnections: 3 });
    const appDatabase = instanceDatabase ?? database;
    const app = await createApp({
      hasConsole: false,
      config: readConfig(settings(overrides)),
      database: {
        ...appDatabase,
        db: appDatabase.db.withPlugin(createStatementPlugin(onStatement)),
      },
      log: createLogger({
        level: 'trace',
        service: 'assistant',
        destination: { write: (line) => lines.push(line) },
      }),
    });
    deferCleanup(async () => {
      await app.close();
      await instanceDatabase?.close();
    });
    return app;
  }

  const { db, pool, engine, listen } = database;

  return {
    db,
    pool,
    engine,
    listen,
    provider,
    lines,
    createInstance,
    /** Returns the environment of an instance, for a separate process. */
    settings,
    /** URL of the database; undefined on PGlite. */
    databaseUrl: database.url,
    /**
     * Signs in a new browser, and clears the provider's calls.
     * @param user The next user of the provider. Several signed-in users need IDP_USER_MAX_AGE_SECONDS.
     */
    signInUser: async (app: Server, user: unknown = provider.user): Promise<Browser> => {
      provider.user = user;
      const browser = new Browser(app);
      const { statusCode, body } = await browser.signIn(provider);
      if (statusCode !== 302) throw new Error(`The sign-in ended with ${statusCode}: ${body}`);
      provider.calls.length = 0;
      return browser;
    },
    /** Returns the row of an auth session. */
    findAuthSession: (id: string) =>
      db.selectFrom('user_auth_sessions').selectAll().where('id', '=', id).executeTakeFirst(),
    /** Returns the audit entries with an action, oldest first. */
    listAuditEntries: (action: AuditAction) =>
      db
        .selectFrom('audit_log')
        .select(['actor_id', 'user_id', 'details'])
        .where('action', '=', action)
        .orderBy('id')
        .execute(),
    /** Expires all access tokens at the provider, and the token in a browser's row. */
    expireToken: async ({ sid }: Pick<Browser, 'sid'>): Promise<void> => {
      provider.expireAccessTokens();
      await sql`
        update user_auth_sessions set expires_at = now() - interval '1 second'
        where id = ${sid}`.execute(db);
    },
  };
}

export type Statement = 'read' | 'write';

/** Creates a plugin that reports statements by their results, because plugins cannot see the kind of raw SQL. */
const createStatementPlugin = (onStatement: (statement: Statement) => void): KyselyPlugin => ({
  transformQuery: ({ node }) => node,
  transformResult({ result }) {
    onStatement(result.numAffectedRows === undefined ? 'read' : 'write');
    return Promise.resolve(result);
  },
});

type RequestOptions = { app?: Server; headers?: Record<string, string>; payload?: string | object };

/** Browser that sends requests with `inject` and keeps cookies. */
export class Browser {
  readonly cookies = new Map<string, string>();
  private readonly app: Server;
  private readonly headers: Record<string, string>;

  constructor(app: Server, headers: Record<string, string> = {}) {
    this.app = app;
    this.headers = headers;
  }

  async request(
    method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
    url: string,
    { app = this.app, headers = {}, payload }: RequestOptions = {},
  ) {
    const response = await app.inject({
      method,
      url,
      headers: { ...this.headers, ...headers },
      cookies: Object.fromEntries(this.cookies),
      ...(payload && { payload }),
    });
    for (const { name, value, maxAge } of response.cookies) {
      if (maxAge === 0) this.cookies.delete(name);
      else this.cookies.set(name, value);
    }
    return response;
  }

  get(url: string, options?: RequestOptions) {
    return this.request('GET', url, options);
  }

  post(url: string, options?: RequestOptions) {
    return this.request('POST', url, options);
  }

  get sid(): string {
    const sid = this.cookies.get('svc_auth_session');
    if (sid === undefined) throw new Error('The browser has no session');
    return sid;
  }

  /** Begins a sign-in, and returns the path of its callback. */
  async begin(provider: ScriptedProvider): Promise<string> {
    const login = await this.get('/auth/login');
    const callbackUrl = new URL(await provider.authorize(String(login.headers.location)));
    return callbackUrl.pathname + callbackUrl.search;
  }

  async signIn(provider: ScriptedProvider) {
    return this.get(await this.begin(provider));
  }
}

/** Makes every second deletion from a table fail with a deadlock until the test ends, beginning with the first. */
export async function failEverySecondDeletion(
  t: TestContext,
  db: Kysely<Tables>,
  table: keyof Tables,
): Promise<void> {
  // A sequence keeps its count after a rollback, so the retry of a failed deletion succeeds.
  await sql`create sequence deletions`.execute(db);
  await sql`
    create function fail_deletion() returns trigger language plpgsql as $$ begin
      if nextval('deletions') % 2 = 1 then raise exception 'deadlock' using errcode = '40P01'; end if;
      return null;
    end $$`.execute(db);
  await sql`
    create trigger fail_deletion before delete on ${sql.table(table)}
    for each statement execute function fail_deletion()`.execute(db);
  t.after(async () => {
    await sql`drop function fail_deletion cascade`.execute(db);
    await sql`drop sequence deletions`.execute(db);
  });
}
