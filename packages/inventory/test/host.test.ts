import assert from 'node:assert/strict';
import { test } from 'node:test';
import { canonicalHost, hostIn } from '../src/host.ts';
import { endpointOf } from '../src/endpoint.ts';
import { withoutCredentials } from '../src/credentials.ts';
import { VALID_RECORD } from './support/findings.ts';

test('a host is taken as it is written, and only international names in ASCII', () => {
  const record = { ...VALID_RECORD, exposure: 'private' } as const;
  for (const [url, host, port] of [
    ['http://1.2.3/', '1.2.3', 80],
    ['https://u:p@x@0x7f.1:8443/y@z', '0x7f.1', 8443],
    ['https://Gateway.Example.test?a=b@c', 'Gateway.Example.test', 443],
    ['https://[2001:DB8:0::7]:1/', '[2001:DB8:0::7]', 1],
    ['https://Оселя.example.test/', 'xn--e1amhm6e.example.test', 443],
    ['postgres://db.example.test/x', 'db.example.test', 5432],
  ] as const) {
    const endpoint = endpointOf({ ...record, url });
    assert.deepEqual([endpoint?.host, endpoint?.port], [host, port], url);
  }
  assert.equal(endpointOf({ ...record, url: 'http://ex%61mple.test/' }), null);
});

test('equal hosts are equal in one form, and what resembles an address is none', () => {
  assert.equal(canonicalHost('[2001:DB8:0:0::7]'), canonicalHost('2001:db8::7'));
  assert.equal(canonicalHost('Оселя.example.test.'), canonicalHost('xn--e1amhm6e.example.test'));
  assert.notEqual(canonicalHost('1.2.3'), canonicalHost('1.2.0.3'));
  assert.equal(hostIn('http:/x.test/', new URL('http:/x.test/')), 'x.test');
});

test('credentials are left out of an address, and nothing else', () => {
  assert.equal(withoutCredentials(' https://u:p@x@a.test/b@c '), 'https://a.test/b@c');
  assert.equal(withoutCredentials('https://a.test/?q=b@c'), 'https://a.test/?q=b@c');
});
