import assert from 'node:assert/strict';
import { createApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { type Tables } from '../../src/tables.ts';
import { openChatClient, openRawClient, openStage } from '../conversations/stage.ts';
import { openAssistant, type Browser } from '../helpers/assistant.ts';
import { createPerson } from '../helpers/people.ts';
import { createGate } from '../helpers/scripted-model.ts';
import { SocketClient } from '../helpers/socket-client.ts';
import {
  interruptDatabase,
  send,
  startProcess,
  type Replica,
  type SentRequest,
  withLock,
} from './helpers.ts';
import { connect } from '@oselya/db';
import { createLogger } from '@oselya/kit';
import {
  createChunk,
  createStreamedResponse,
  createToolCallChunk,
  startModelServer,
  type ScriptedResponse,
} from '@oselya/model/testing';
import { deferCleanup, getRepetitions, startProxy, until } from '@oselya/testing';
import { cutConnections } from '@oselya/testing/database';
import type { InjectOptions } from 'fastify';
import { sql } from 'kysely';
import { createHmac } from 'node:crypto';
import { beforeEach, suite, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

suite('answers over restarts and kills', async () => {
  if (process.env['TEST_DATABASE_URL'] !== undefined) {
    const stage = await openStage();
    const { db, databaseUrl = '', model, readMessages, url } = stage;
    const interruption = await interruptDatabase(databaseUrl);
    const sid = await stage.signIn('u-olena');
    const replica = await startProcess(stage);

    /** Reports how many times the answer of a session is stored. */
    async function reportAnswer(t: TestContext, sessionId: string): Promise<void> {
      const messages = await readMessages(sessionId);
      const count = messages.filter(([role]) => role === 'assistant').length;
      const [lostCount, doubledCount] = [count === 0 ? 1 : 0, Math.max(0, count - 1)];
      t.diagnostic(`1 accepted, ${count} stored, ${lostCount} lost, ${doubledCount} doubled`);
    }

    test('An answer survives a restart of the database', async (t) => {
      t.after(interruption.restore);
      const outageGate = createGate();
      const endGate = createGate();
      t.after(() => {
        outageGate.open();
        endGate.open();
      });
      model.scripts.push({
        words: ['Перше. ', outageGate.opened, 'Друге. ', endGate.opened, 'Третє.'],
      });
      const olena = await openChatClient(t, { url: replica.url, sid });
      const id = await olena.newSession();
      const answer = olena.say(id, 'Кажи');
      await answer.waitForText('Перше. ');
      await interruption.interrupt();
      outageGate.open();
      await answer.waitForText('Друге. ');
      endGate.open();
      await answer.waitForText('Третє.');
      assert.ok(!answer.isOver, 'the end is not sent before it is stored');
      await interruption.restore();
      const { message } = await answer.waitFor('message.completed');
      await reportAnswer(t, id);
      assert.equal(message.content, 'Перше. Друге. Третє.');
      assert.equal(answer.streamedText, message.content);
      assert.deepEqual(
        olena.statuses.map(({ type }) => type),
        ['connected'],
      );
      assert.deepEqual(await readMessages(id), [
        ['user', 'Кажи', null],
        ['assistant', 'Перше. Друге. Третє.', null],
      ]);
    });

    test('The stored part of an answer gets the status cut after its process is killed', async (t) => {
      const restGate = createGate();
      t.after(restGate.open);
      model.scripts.push({ words: ['Почав ', restGate.opened, 'і зник'] });
      const proxy = await startProxy(replica.url);
      const olena = await openChatClient(t, { url: proxy.url, sid });
      const id = await olena.newSession();
      const answer = olena.say(id, 'Пиши');
      await answer.waitForText('Почав ');
      const findTurn = () =>
        db
          .selectFrom('chat_turn_events')
          .innerJoin('chat_turns', 'chat_turns.id', 'chat_turn_events.turn_id')
          .select(['chat_turns.id', 'chat_turns.status'])
          .where('chat_turns.session_id', '=', id)
          .where('last_seq', '>=', 2)
          .executeTakeFirst();
      await until(async () => (await findTurn()) !== undefined);
      await replica.kill();
      await until(() => olena.statuses.some(({ type }) => type === 'waiting'));
      assert.partialDeepStrictEqual(olena.statuses[1], { code: 1006 });
      // Leases last 20 s, and the reaper runs every 5 s, so this takes up to 25 s.
      await until(async () => (await findTurn())?.status === 'cut');

      proxy.setTarget(url);
      const { message } = await answer.waitFor('message.completed');
      await reportAnswer(t, id);
      assert.partialDeepStrictEqual(message, { content: 'Почав ', status: 'cut' });
      assert.equal(answer.streamedText, 'Почав ');
    });

    /** Starts a process whose database connections can be interrupted. */
    async function startBehindProxy(t: TestContext) {
      const proxy = await startProxy(databaseUrl);
      const remoteProcess = await startProcess({ ...stage, databaseUrl: proxy.url });
      t.after(() => remoteProcess.kill());
      return { proxy, remoteProcess };
    }

    test('A follower gets the missed events after its process reconnects to the database', async (t) => {
      const { proxy, remoteProcess } = await startBehindProxy(t);
      const restGate = createGate();
      t.after(restGate.open);
      model.scripts.push({ words: ['Перше. ', restGate.opened, 'Друге.'] });
      const olena = await openChatClient(t, { url, sid });
      const id = await olena.newSession();
      const answer = olena.say(id, 'Кажи');
      await answer.waitForText('Перше. ');
      const follower = await openChatClient(t, { url: remoteProcess.url, sid });
      const { answer: followedAnswer } = await follower.open(id);
      assert.ok(followedAnswer);
      await followedAnswer.waitForText('Перше. ');
      await proxy.interrupt();
      restGate.open();
      await answer.waitFor('message.completed');
      assert.ok(!followedAnswer.isOver);
      await proxy.restore();
      await followedAnswer.waitFor('message.completed');
      await reportAnswer(t, id);
      assert.equal(followedAnswer.streamedText, 'Перше. Друге.');
    });

    test('An answer whose commit is not acknowledged is sent once', async (t) => {
      const { proxy, remoteProcess } = await startBehindProxy(t);
      // The commit that ends the turn waits until the database client has disconnected.
      await sql`create function wait_at_commit() returns trigger language plpgsql as $$
      begin perform pg_advisory_xact_lock(4711); return null; end $$`.execute(db);
      await sql`create constraint trigger wait_at_commit after update on chat_turns
      deferrable initially deferred for each row when (new.status = 'completed')
      execute function wait_at_commit()`.execute(db);
      t.after(() => sql`drop function wait_at_commit cascade`.execute(db));
      const olena = await openChatClient(t, { url: remoteProcess.url, sid });
      // A named session needs no title.
      const id = await olena.newSession('Пошук');
      const restGate = createGate();
      t.after(restGate.open);
      model.scripts.push({ words: [restGate.opened, 'Готово.'] });
      const answer = olena.say(id, 'Кажи');
      await withLock(db, sql`select pg_advisory_xact_lock(4711)`, async (waitUntilBlocked) => {
        restGate.open();
        await waitUntilBlocked();
        await proxy.interrupt();
      });
      await until(async () => (await readMessages(id)).length === 2);
      assert.ok(!answer.isOver);
      await proxy.restore();
      const { message } = await answer.waitFor('message.completed');
      await reportAnswer(t, id);
      assert.equal(message.content, 'Готово.');
      assert.deepEqual(await readMessages(id), [
        ['user', 'Кажи', null],
        ['assistant', 'Готово.', null],
      ]);
      assert.equal((await olena.retry(id).waitForFailure()).problem?.code, 'nothing_to_retry');
      await until(async () => {
        const metricsResponse = await fetch(`${remoteProcess.url}/metrics`);
        return (await metricsResponse.text()).includes(
          'assistant_turns_total{outcome="completed"} 1\n',
        );
      });
    });
  }
});

suite('outage of the model', async () => {
  let isDown = true;
  let requestCount = 0;
  let fault: ScriptedResponse | undefined;
  const server = await startModelServer(({ path }): ScriptedResponse => {
    if (path.endsWith('/models')) return { body: { data: [] } };
    requestCount += 1;
    if (fault !== undefined) return fault;
    if (isDown) return 'reset';
    return createStreamedResponse([
      createChunk({ content: 'Є дві.' }),
      createChunk({}, { finishReason: 'stop' }),
    ]);
  });
  const stage = await openStage({ MODEL_BASE_URL: server.url });
  const { app, readMessages, url } = stage;
  deferCleanup(() => server.close());
  const sid = await stage.signIn('u-olena');

  const readHealth = async () => (await app.inject('/health')).json().checks.model;

  test('An error within a stream is reported to the user, counted, and shown in the health', async (t) => {
    isDown = false;
    // The probe at startup has failed.
    await until(async () => (await readHealth()).status === 'degraded');
    const olena = await openChatClient(t, { url, sid });
    const id = await olena.newSession('Пошук');
    const failWith = (error: object) =>
      (fault = createStreamedResponse([createChunk({ content: 'Є ' }), { error }]));
    failWith({ code: 500, message: 'Compute error.', type: 'server_error' });
    const { problem } = await olena.say(id, 'Що є?').waitFor('error');
    assert.equal(problem.code, 'model_unavailable');
    const { status, detail } = await readHealth();
    assert.equal(status, 'degraded');
    assert.match(detail, /^The last chat request failed: .* with an error: Compute error\.$/);

    failWith({
      message: 'too long',
      type: 'invalid_request_error',
      code: 'context_length_exceeded',
    });
    const { problem: secondProblem } = await olena.retry(id).waitFor('error');
    assert.equal(secondProblem.code, 'model_failed');

    fault = undefined;
    await olena.retry(id).waitFor('message.completed');
    assert.deepEqual(await readHealth(), { status: 'ok' });
    const { body } = await app.inject('/metrics');
    const outcomes = body.matchAll(/requests_total{operation="chat",outcome="(\w+)"} (\d+)/g);
    assert.deepEqual(
      new Map([...outcomes].map(([, outcome, count]) => [outcome, count])),
      new Map([
        ['MODEL_UNAVAILABLE', '1'],
        ['MODEL_INPUT_TOO_LARGE', '1'],
        ['ok', '1'],
      ]),
    );
    isDown = true;
  });

  test('An unreachable model is reported, and the answer can be retried when it is back', async (t) => {
    const olena = await openChatClient(t, { url, sid });
    const id = await olena.newSession('Пошук');
    const { problem, message } = await olena.say(id, 'Що є?').waitFor('error');
    assert.partialDeepStrictEqual(problem, { code: 'model_unavailable', status: 503 });
    assert.partialDeepStrictEqual(message, { content: '', status: 'failed' });
    const { messages } = await olena.open(id);
    assert.equal(messages.length, 2);
    assert.partialDeepStrictEqual(messages[1], {
      status: 'failed',
      problem: { code: problem.code },
    });

    isDown = false;
    await olena.retry(id).waitFor('message.completed');
    assert.deepEqual(await readMessages(id), [
      ['user', 'Що є?', null],
      ['assistant', 'Є дві.', null],
    ]);

    // The breaker opens after five consecutive failures.
    isDown = true;
    const requestCounts: number[] = [];
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      const earlierCount = requestCount;
      const { problem: laterProblem } = await olena.say(id, `Ще ${attempt}`).waitFor('error');
      assert.equal(laterProblem.code, 'model_unavailable');
      requestCounts.push(requestCount - earlierCount);
    }
    t.diagnostic(
      `4 answers failed, 1 completed when retried; ${requestCounts.join(', ')} requests for an answer`,
    );
    assert.deepEqual(requestCounts, [3, 2, 0]);
  });
});

suite('outage of the database', async () => {
  const SESSION_COUNT = 20;
  /** Number of rejected requests after which an outage ends, before the minute that a refresh survives is over. */
  const MIN_REJECTIONS = 100;
  const INTERRUPTION_COUNT = getRepetitions({ soak: 10, ci: 1 });

  const assistant = await openAssistant();
  const { db, databaseUrl, provider, createInstance, settings, signInUser } = assistant;
  const app = await createInstance();

  beforeEach(() => provider.reset());

  test('Without its database the assistant responds with 503 and keeps all cookies', async () => {
    const database = await connect<Tables>({ url: databaseUrl });
    const offlineApp = await createApp({
      config: readConfig(settings()),
      database,
      log: createLogger({ level: 'fatal', service: 'assistant', destination: { write() {} } }),
      hasConsole: false,
    });
    deferCleanup(() => offlineApp.close());
    const browser = await signInUser(app);
    const callback = await browser.begin(provider);
    const cookies = new Map(browser.cookies);
    await database.close();
    for (const [method, path] of [
      ['GET', '/auth/me'],
      ['GET', '/'],
      ['GET', '/auth/login'],
      ['GET', callback],
      ['POST', '/auth/logout'],
      ['GET', '/health'],
    ] as const) {
      const response = await browser.request(method, path, { app: offlineApp });
      assert.equal(response.statusCode, 503, path);
      assert.ok(Number(response.headers['retry-after']) > 0, path);
      if (path !== '/health') assert.equal(response.json().code, 'unavailable');
      else assert.match(response.body, /"The check failed \(\w+\); see the log\."/);
      assert.deepEqual(browser.cookies, cookies);
    }
    assert.equal((await browser.get('/auth/me')).statusCode, 200);
  });

  /**
   * Requests the current user from all replicas until stopped. Counts a 503 as an outage only if it has `Retry-After`
   * and sets no cookie.
   */
  function startRequests(browsers: readonly Browser[], replicas: readonly Replica[]) {
    const result = { successes: 0, outages: 0, failures: [] as string[] };
    const stopController = new AbortController();
    const requestLoops = Promise.all(
      browsers.map(async (browser, index) => {
        const replica = replicas[index % replicas.length];
        assert.ok(replica !== undefined);
        while (!stopController.signal.aborted) {
          const { status, headers, body } = await send(replica, browser, { path: '/auth/me' });
          const isValid =
            !headers.has('set-cookie') && headers.has('retry-after') === (status === 503);
          if (status === 200 && isValid) result.successes += 1;
          else if (status === 503 && isValid) result.outages += 1;
          else result.failures.push(`${status} ${body}`);
          await sleep(5);
        }
      }),
    );
    return {
      result,
      async stop() {
        stopController.abort();
        await requestLoops;
      },
    };
  }

  if (databaseUrl !== undefined) {
    test('The first request of each method succeeds after all connections are broken', async (t) => {
      const browser = await signInUser(
        app,
        createPerson('u-1', { permissions: ['svc.memory.read_own'] }),
      );
      const fact = { url: '/memory/facts/home/rooms', payload: { value: '2' } };
      let count = 0;
      for (const [method, url, status] of [
        ['GET', '/auth/me', 200],
        ['PUT', fact.url, 201],
        ['GET', '/memory/facts', 200],
        ['DELETE', fact.url, 200],
      ] as const) {
        cutConnections(databaseUrl);
        const body = method === 'PUT' ? { payload: fact.payload } : {};
        const response = await browser.request(method, url, body);
        assert.equal(response.statusCode, status, `${method} ${url}: ${response.body}`);
        count += 1;
      }
      t.diagnostic(`requests: ${count} answered after as many cuts`);
    });

    for (const [name, openServer] of [
      ['a server that restarts', interruptDatabase],
      ['a network that breaks', startProxy],
    ] as const) {
      test(`${name} under load ends no session, loses no refresh and closes no socket`, async (t) => {
        await db.deleteFrom('user_auth_sessions').execute();
        const server = await openServer(databaseUrl);
        t.after(server.restore);
        const replicas = await Promise.all(
          [0, 1].map(() => startProcess(assistant, { DATABASE_URL: server.url })),
        );
        // Every request refreshes an expired access token.
        provider.token.expiresIn = 0;
        const browsers: Browser[] = [];
        const user = createPerson('u-1', { permissions: ['svc.profiles.use'] });
        for (let count = 0; count < SESSION_COUNT; count += 1)
          browsers.push(await signInUser(app, user));
        const [firstBrowser] = browsers;
        assert.ok(firstBrowser !== undefined);
        const sockets = await Promise.all(
          replicas.map(({ url }) => SocketClient.open(url, { sid: firstBrowser.sid })),
        );
        const requests = startRequests(browsers, replicas);
        const { result } = requests;
        await until(() => result.successes >= SESSION_COUNT);
        for (let interruption = 0; interruption < INTERRUPTION_COUNT; interruption += 1) {
          const { outages } = result;
          await server.interrupt();
          await until(() => result.outages >= outages + MIN_REJECTIONS);
          await server.restore();
          const { successes } = result;
          await until(() => result.successes >= successes + SESSION_COUNT);
        }
        await requests.stop();

        const rows = await db.selectFrom('user_auth_sessions').select('token_version').execute();
        const refreshCount = rows.reduce((sum, { token_version: version }) => sum + version, 0);
        t.diagnostic(
          `interruptions: ${INTERRUPTION_COUNT}; sessions: ${rows.length} kept, ` +
            `${SESSION_COUNT - rows.length} ended; refreshes: ${refreshCount} stored; ` +
            `requests: ${result.successes} answered, ` +
            `${result.outages} unavailable, ${result.failures.length} failed`,
        );
        assert.deepEqual([result.failures, rows.length], [[], SESSION_COUNT]);
        assert.equal(provider.count('token', 'refresh_token'), refreshCount);
        await db.updateTable('user_auth_sessions').set({ refresh_lease_until: null }).execute();
        for (const socket of sockets) {
          await until(async () => (await socket.outcome({ type: 'session.create' })) === 'ok');
        }
        for (const replica of replicas) {
          for (const browser of browsers) {
            assert.equal((await send(replica, browser, { path: '/auth/me' })).status, 200);
          }
        }
        // Notifications from other processes arrive again.
        assert.equal((await firstBrowser.post('/auth/logout')).statusCode, 200);
        for (const socket of sockets) assert.equal((await socket.closed).code, 4401);
      });
    }
  }
});

suite('interrupted transactions', async () => {
  const WEBHOOK_SECRET = 'webhook secret of the tests';

  const assistant = await openAssistant({ IDP_WEBHOOK_SECRET: WEBHOOK_SECRET });
  const { db, engine, provider, createInstance, signInUser } = assistant;
  const app = await createInstance();
  const replica = { url: await app.listen({ host: '127.0.0.1', port: 0 }) };

  beforeEach(() => provider.reset());

  /** A request that runs one transaction, which adds audit entries. */
  type Action = {
    /** Creates the request. A sign-in request is valid only once. */
    request: (browser: Browser) => Promise<SentRequest>;
    status: number;
    /** Actions of the audit entries that the request adds. */
    auditActions: string[];
  };

  const auditedActions: Record<string, Action> = {
    'a sign-in': {
      request: async (browser) => ({ path: await browser.begin(provider) }),
      status: 302,
      // A sign-in ends the browser's earlier one.
      auditActions: ['signed_out', 'signed_in'],
    },
    'a logout': {
      request: () => Promise.resolve({ path: '/auth/logout', method: 'POST' }),
      status: 200,
      auditActions: ['signed_out'],
    },
    'a webhook': {
      request: () => {
        const body = JSON.stringify({ event: 'user.blocked', user_id: 'u-1' });
        const signature = createHmac('sha256', WEBHOOK_SECRET).update(body).digest('hex');
        const headers = { 'content-type': 'application/json', 'x-webhook-signature': signature };
        return Promise.resolve({ path: '/webhooks/idp', method: 'POST', headers, body });
      },
      status: 200,
      auditActions: ['sign_ins_ended'],
    },
  };

  /** Returns all rows of the tables that show the effects of a request. */
  const readWrittenRows = async () => ({
    users: await db.selectFrom('svc_users').selectAll().orderBy('id').execute(),
    sessions: await db.selectFrom('user_auth_sessions').selectAll().orderBy('id').execute(),
    audit: await db.selectFrom('audit_log').selectAll().orderBy('id').execute(),
    webhooks: await db.selectFrom('webhook_events').selectAll().orderBy('id').execute(),
    invalidations: await db.selectFrom('invalidations').selectAll().orderBy('id').execute(),
  });

  if (engine === 'postgres') {
    const lockStatement = sql`lock table audit_log in share row exclusive mode`;
    for (const [name, action] of Object.entries(auditedActions)) {
      test(`${name} has no effect after its process is killed, and takes effect elsewhere`, async (t) => {
        const killedProcess = await startProcess(assistant);
        const browser = await signInUser(app);
        const request = await action.request(browser);
        const earlierRows = await readWrittenRows();
        await withLock(db, lockStatement, async (waitUntilBlocked) => {
          const lostRequest = send(killedProcess, browser, request);
          const rejection = assert.rejects(lostRequest);
          await waitUntilBlocked();
          await killedProcess.kill();
          await rejection;
        });
        // Waits until the server notices the disconnect.
        await withLock(db, lockStatement, () => Promise.resolve());
        assert.deepEqual(await readWrittenRows(), earlierRows);

        const { status, headers } = await send(replica, browser, await action.request(browser));
        assert.equal(status, action.status);
        const laterRows = await readWrittenRows();
        t.diagnostic(
          `audit entries: ${action.auditActions.length} expected, ` +
            `${laterRows.audit.length - earlierRows.audit.length} stored`,
        );
        assert.deepEqual(
          laterRows.audit.slice(earlierRows.audit.length).map((entry) => entry.action),
          action.auditActions,
        );
        const sids = new Set(laterRows.sessions.map(({ id }) => id));
        assert.ok(!sids.has(browser.sid), 'the earlier session has ended');
        const cookie = headers.get('set-cookie') ?? '';
        const newSid = /^svc_auth_session=([\w-]{43})/.exec(cookie)?.[1] ?? '';
        assert.equal(sids.has(newSid), action.auditActions.includes('signed_in'));
      });
    }
  }
});

suite('order of locks', async () => {
  if (process.env['TEST_DATABASE_URL'] !== undefined) {
    const stage = await openStage();
    const { app, db, url } = stage;

    const request = (options: InjectOptions, sid: string) =>
      app.inject({ ...options, cookies: { svc_auth_session: sid } });

    type Case = { client: SocketClient; id: string; sid: string };

    /** Functions that send a request which locks the user and a session, and return its status or number of errors. */
    const actions = {
      message: async ({ client, id }: Case) => {
        client.send({ type: 'message.send', session_id: id, text: 'Добрий день' });
        // The socket handles messages in order, so an error arrives before the pong.
        await client.ask({ type: 'ping' });
        return client.getFrames('error').filter((frame) => !('seq' in frame)).length;
      },
      file: async ({ id, sid }: Case) => {
        const fileUrl = `/sessions/${id}/files/a.txt`;
        const headers = { 'content-type': 'application/octet-stream' };
        return (await request({ method: 'PUT', url: fileUrl, headers, payload: 'a' }, sid))
          .statusCode;
      },
      deletion: async ({ sid }: Case) =>
        (await request({ method: 'DELETE', url: '/me/data' }, sid)).statusCode,
      search: async ({ id, sid }: Case) => {
        const payload = { name: 'Дім', search: { query: 'дім' }, session_id: id };
        const options = { method: 'POST', url: '/saved-searches', payload } as const;
        return (await request(options, sid)).statusCode;
      },
    };

    for (const [first, second, expected] of [
      ['message', 'deletion', [0, 200]],
      ['message', 'search', [0, 201]],
      ['file', 'deletion', [201, 200]],
      ['file', 'search', [201, 201]],
    ] as const) {
      test(`A ${first} and a ${second} of one session acquire their locks in the same order`, async (t) => {
        const sid = await stage.signIn(`u-${first}-${second}`);
        const client = await openRawClient(t, { url, sid });
        const id = await client.newSession();
        const concurrentRequests: Promise<unknown>[] = [];
        const lock = sql`select from conversation_sessions where id = ${id} for update`;
        await withLock(db, lock, async (waitUntilBlocked) => {
          for (const [index, name] of [first, second].entries()) {
            concurrentRequests.push(actions[name]({ client, id, sid }));
            await waitUntilBlocked(index + 1);
          }
        });
        assert.deepEqual(await Promise.all(concurrentRequests), expected);
      });
    }

    test('A cancelled tool that waits for a lock changes nothing', async (t) => {
      // The assignment of legacy data acquires this lock.
      const lock = sql`lock table memory_facts, memory_summaries in share row exclusive mode`;
      const sid = await stage.signIn('u-olena');
      const olena = await openRawClient(t, { url, sid });
      const id = await olena.newSession();
      const toolCallSent = createGate();
      t.after(toolCallSent.open);
      const fact = JSON.stringify({ category: 'wishes', key: 'city', value: 'Львів' });
      const call = createToolCallChunk({ id: '1', name: 'remember_fact', arguments: fact });
      const finalChunk = createChunk({}, { finishReason: 'tool_calls' });
      stage.model.scripts.push({
        answer: createStreamedResponse([() => toolCallSent.opened, call, finalChunk]),
      });
      await olena.say(id, 'Львів');
      await withLock(db, lock, async (waitUntilBlocked) => {
        toolCallSent.open();
        await waitUntilBlocked();
        olena.send({ type: 'message.cancel', session_id: id });
        const { message } = await olena.waitFor('message.completed');
        assert.partialDeepStrictEqual(message, { status: 'cancelled' });
      });
      // Waits until the tool has released the lock.
      await withLock(db, lock, () => Promise.resolve());
      assert.deepEqual(await db.selectFrom('memory_facts').selectAll().execute(), []);
      const steps = await stage.listSteps(id);
      assert.deepEqual(
        steps.map(({ status, changes }) => [status, changes]),
        [['failed', null]],
      );
      assert.equal(olena.getFrames('tool.finished').length, 0);
    });
  }
});
