import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openAssistant } from '../helpers/assistant.ts';

const { instance } = await openAssistant({ LOGIN_PER_MINUTE: '2', TRUSTED_PROXIES: '127.0.0.1' });
const app = await instance();

const login = async (address: string) => {
  const headers = { 'x-forwarded-for': address };
  return (await app.inject({ url: '/auth/login', headers })).statusCode;
};

test('the addresses of one IPv6 network begin so many sign-ins together', async () => {
  assert.equal(await login('2001:db8:1:2::1'), 302);
  assert.equal(await login('2001:db8:1:2::2'), 302);
  assert.equal(await login('2001:db8:1:2:ffff:ffff:ffff:ffff'), 429);
  assert.equal(await login('2001:db8:1:3::1'), 302);
});

test('an IPv4 address is one, however it is written', async () => {
  assert.equal(await login('192.0.2.1'), 302);
  assert.equal(await login('::ffff:192.0.2.1'), 302);
  assert.equal(await login('192.0.2.1'), 429);
  assert.equal(await login('192.0.2.2'), 302);
});
