import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openReceiver } from './receiver.ts';
import { hmacHeaders, post, SECRET, send, standardHeaders } from './sender.ts';

const { app, instance, lines } = await openReceiver();

const BODY = JSON.stringify({ event: 'user.blocked', user_id: 'u-1' });

test('webhooks are counted by event and outcome, and measured as requests', async () => {
  const own = await instance();
  await send(own, { event: 'user.blocked', user_id: 'u-1' }, 'msg_1');
  await send(own, { event: 'user.blocked', user_id: 'u-1' }, 'msg_1');
  await send(own, { event: 'user.blocked' });
  await send(own, { event: 'session.revoked', user_id: { id: 'u-1' } });
  await send(own, { event: 'made up', user_id: 'u-1' });
  await send(own, {});
  await post(own, BODY, {});
  await post(own, '{', hmacHeaders('{'));
  const { body: metrics } = await own.inject('/metrics');
  const counts = metrics.split('\n').filter((line) => line.startsWith('assistant_webhooks_total{'));
  assert.deepEqual(counts.toSorted(), [
    'assistant_webhooks_total{event="other",outcome="ignored"} 2',
    'assistant_webhooks_total{event="other",outcome="refused"} 2',
    'assistant_webhooks_total{event="session.revoked",outcome="user_missing"} 1',
    'assistant_webhooks_total{event="user.blocked",outcome="applied"} 1',
    'assistant_webhooks_total{event="user.blocked",outcome="duplicate"} 1',
    'assistant_webhooks_total{event="user.blocked",outcome="user_missing"} 1',
  ]);
  assert.match(
    metrics,
    /http_request_duration_seconds_count\{method="POST",route="\/webhooks\/idp",status="200"\} 6/,
  );
});

test('a revocation whose user cannot be read is a warning, other events without one are not', async () => {
  lines.length = 0;
  for (const event of ['user.blocked', 'user.archived', 'user.deleted', 'session.revoked']) {
    await send(app, { event, user_id: '' });
  }
  await send(app, { event: 'user.renamed' });
  await send(app, { event: 'client.roles_changed' });
  const logged = lines
    .map((line): Record<string, unknown> => JSON.parse(line))
    .filter(({ outcome }) => outcome !== undefined)
    .map(({ level, event, outcome }) => [level, event, outcome]);
  assert.deepEqual(logged, [
    ['warn', 'user.blocked', 'user_missing'],
    ['warn', 'user.archived', 'user_missing'],
    ['warn', 'user.deleted', 'user_missing'],
    ['warn', 'session.revoked', 'user_missing'],
    ['info', 'other', 'ignored'],
    ['info', 'client.roles_changed', 'applied'],
  ]);
});

test('neither bodies nor signatures nor the secret are in the log', async () => {
  lines.length = 0;
  const body = JSON.stringify({ event: 'confidential', user_id: 'u-1', note: 'confidential' });
  const standard = standardHeaders(body, { id: 'msg_1' });
  const bodyAlone = hmacHeaders(body);
  await post(app, body, standard);
  await post(app, body, bodyAlone);
  await post(app, `${body} `, standard);
  await post(app, `${body} `, bodyAlone);
  await post(app, 'confidential', hmacHeaders('confidential'));
  const log = lines.join('');
  assert.match(log, /a webhook was accepted/);
  assert.match(log, /signature_wrong/);
  assert.match(log, /body_malformed/);
  const secrets = [
    'confidential',
    standard['webhook-signature'],
    ...Object.values(bodyAlone),
    ...Object.values(hmacHeaders('confidential')),
    SECRET,
  ];
  for (const secret of secrets) assert.ok(!log.includes(secret), secret);
});
