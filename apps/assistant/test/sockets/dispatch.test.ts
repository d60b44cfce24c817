import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Type } from 'typebox';
import { problem } from '../../src/errors.ts';
import { closings } from '@oselya/protocol';
import { clientMessages } from '@oselya/protocol';
import { publicMessage, userMessage } from '../../src/conversations/dispatch.ts';
import { SocketClient } from '../helpers/socket-client.ts';
import { account, admin, gated, openSockets, own, ping, sid } from '../helpers/sockets.ts';
import { until } from '../helpers/until.ts';

const { answers } = clientMessages.ping;

test('an answer repeats the id of its message, where that has one', async () => {
  const { url } = await openSockets({ types: { ping } });
  const client = await SocketClient.open(url);
  for (const id of ['1', '', 'ї'.repeat(128)]) client.send({ type: 'ping', id });
  client.send({ type: 'ping' });
  client.send({ type: 'ping', id: null });
  client.send({ type: 'nothing', id: '2' });
  await until(() => client.frames.length === 6);
  assert.deepEqual(
    client.frames.map(({ type, id, problem: error }) => [type, id, error?.code]),
    [
      ['pong', '1', undefined],
      ['pong', '', undefined],
      ['pong', 'ї'.repeat(128), undefined],
      ['pong', undefined, undefined],
      ['pong', undefined, undefined],
      ['error', '2', 'unknown_message_type'],
    ],
  );
});

test('an error is a problem with the request id of the handshake', async () => {
  const { url } = await openSockets({ types: { ping } });
  const client = await SocketClient.open(url, { headers: { 'x-request-id': 'hand-1' } });
  const answer = await client.ask({ type: 'ping', surplus: 1, 'b\u0000': 2 });
  assert.deepEqual(answer.problem, {
    type: 'urn:oselya:error:validation_failed',
    title: 'Validation failed',
    status: 422,
    detail: 'A value breaks its rule. Correct what `errors` lists and send the request again.',
    code: 'validation_failed',
    request_id: 'hand-1',
    errors: [{ path: 'message', message: 'must not have additional properties: surplus, b\u0000' }],
  });
});

test('members are held to their schema, after the user is to the access', async () => {
  const named = userMessage(
    { access: { permission: 'svc.tools.use' }, members: { name: Type.String() }, answers },
    (_, { answer }) => answer({ type: 'pong' }),
  );
  const { url, identity } = await openSockets({ types: { named } });
  identity.users.set(sid('a'), account('a', ['svc.tools.use']));
  identity.users.set(sid('b'), account('b'));
  const holder = await SocketClient.open(url, { sid: sid('a') });
  for (const name of [1, null, ['x'], undefined]) {
    assert.equal(await holder.outcome({ type: 'named', name }), 'validation_failed');
  }
  assert.equal(await holder.outcome({ type: 'named', name: 'x' }), 'ok');
  for (const id of [1.5, true, 'x'.repeat(129)]) {
    const before = holder.frames.length;
    holder.send({ type: 'named', name: 'x', id });
    await until(() => holder.frames.length > before);
    const answer = holder.frames.at(-1);
    assert.deepEqual([answer?.problem?.code, answer?.id], ['validation_failed', undefined]);
  }
  const other = await SocketClient.open(url, { sid: sid('b') });
  assert.equal(await other.outcome({ type: 'named', name: 1 }), 'permission_missing');
  const nobody = await SocketClient.open(url);
  assert.equal(await nobody.outcome({ type: 'named', name: 1 }), 'not_signed_in');
});

test('a member that may be left out may be null, and another may not', async () => {
  const seen: unknown[] = [];
  const members = { name: Type.Optional(Type.String()), count: Type.Integer() };
  const counted = publicMessage({ access: 'public', members, answers }, (message, answer) => {
    seen.push(message);
    answer({ type: 'pong' });
  });
  const { url } = await openSockets({ types: { counted } });
  const client = await SocketClient.open(url);
  assert.equal(await client.outcome({ type: 'counted', name: null, count: 1 }), 'ok');
  assert.deepEqual(seen, [{ type: 'counted', count: 1, id: 'ask-1' }]);
  for (const frame of [{ count: null }, { count: 1, surplus: null }, { count: 1, name: [null] }]) {
    assert.equal(await client.outcome({ type: 'counted', ...frame }), 'validation_failed');
  }
  client.send('{"type":"counted","count":1,"__proto__":null}');
  await until(() => client.frames.length === 5);
  assert.equal(client.frames.at(-1)?.problem?.code, 'validation_failed');
});

test('an id of the wrong kind is told of once', async () => {
  const { url } = await openSockets({ types: { ping } });
  const client = await SocketClient.open(url);
  client.send({ type: 'ping', id: true });
  await until(() => client.frames.length === 1);
  assert.deepEqual(Reflect.get(client.frames[0]?.problem ?? {}, 'errors'), [
    { path: 'message/id', message: 'must be string, or must be integer' },
  ]);
});

test('names that every object has are no types', async () => {
  const { url } = await openSockets({ types: { ping } });
  const client = await SocketClient.open(url);
  for (const type of ['constructor', '__proto__', 'toString', 'hasOwnProperty', '', 'PING']) {
    assert.equal(await client.outcome({ type }), 'unknown_message_type');
  }
});

test('messages are handled in their order, one after the other', async () => {
  const { type, letGo } = gated();
  const { url } = await openSockets({ types: { ping, slow: type } });
  const client = await SocketClient.open(url);
  client.send({ type: 'slow', id: '1' });
  const later = client.ask({ type: 'ping' });
  letGo();
  await later;
  assert.deepEqual(
    client.frames.map(({ id }) => id),
    ['1', 'ask-1'],
  );
});

test('what a handler throws unforeseen is told to the log only', async () => {
  const broken = publicMessage(clientMessages.ping, () => {
    throw new Error('a secret of the inside');
  });
  const { url, lines } = await openSockets({ types: { broken } });
  const client = await SocketClient.open(url);
  // The fault is the service's: however often it is met, the socket stays.
  for (let time = 0; time < 25; time += 1) {
    const answer = await client.ask({ type: 'broken' });
    assert.equal(answer.problem?.code, 'internal_error');
    assert.ok(!JSON.stringify(answer).includes('secret'));
  }
  assert.ok(lines.some((line) => line.includes('a secret of the inside')));
});

test('a user who cannot be resolved keeps the socket, and is asked to wait', async () => {
  const { url, identity } = await openSockets({ types: { ping, own } });
  identity.users.set(sid('a'), account('u-1'));
  identity.failure = problem('provider_unavailable');
  const client = await SocketClient.open(url, { sid: sid('a') });
  assert.equal(await client.outcome({ type: 'own' }), 'provider_unavailable');
  assert.equal(await client.outcome({ type: 'ping' }), 'ok');
  identity.failure = new Error('Connection terminated unexpectedly');
  assert.match(await client.outcome({ type: 'own' }), /^(unavailable|internal_error)$/);
  identity.failure = undefined;
  assert.equal(await client.outcome({ type: 'own' }), 'ok');
});

test('a change of rights holds from the next message on', async () => {
  const { url, sockets, identity } = await openSockets({ types: { own, admin } });
  identity.users.set(sid('a'), { ...account('u-1'), role: 'admin' });
  const client = await SocketClient.open(url, { sid: sid('a') });
  assert.equal(await client.outcome({ type: 'admin' }), 'ok');
  identity.users.set(sid('a'), account('u-1'));
  sockets.onNotify('u-1');
  assert.equal(await client.outcome({ type: 'admin' }), 'admin_only');
  assert.equal(await client.outcome({ type: 'own' }), 'ok');
  identity.users.clear();
  sockets.onNotify('u-1');
  assert.deepEqual(await client.closed, closings.signedOut);
});

test('no cookie and no message is logged', async () => {
  const { url, identity, lines } = await openSockets({ types: { own } });
  identity.users.set(sid('a'), account('u-1'));
  const client = await SocketClient.open(url, { sid: sid('a') });
  await client.outcome({ type: 'own', surplus: 'private words' });
  client.send('private words');
  client.socket.close();
  await until(() => lines.some((line) => line.includes('socket closed')));
  assert.ok(!lines.some((line) => line.includes(sid('a')) || line.includes('private words')));
});
