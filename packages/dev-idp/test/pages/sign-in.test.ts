import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { describe, test } from 'node:test';
import { lostInteractionPage, pickerPage, refusalPage } from '../../src/pages/sign-in.ts';

const redirectUris = ['http://127.0.0.1:8000/auth/callback', 'http://localhost:8000/auth/callback'];
const hostile = `"><img src=x onerror='alert(1)'>&`;

describe('pages', () => {
  test('show names and errors as text', () => {
    const account = {
      sub: hostile,
      email: hostile,
      display_name: hostile,
      role_ids: [hostile],
      permission_ids: [],
      blocked: false,
    };
    const error = { error: hostile, error_description: hostile };
    for (const { html } of [
      pickerPage([account], redirectUris),
      refusalPage(error, redirectUris),
    ]) {
      assert.doesNotMatch(html, /<img/);
      assert.ok(html.includes('&#34;&#62;&#60;img src=x onerror=&#39;alert(1)&#39;&#62;&#38;'));
    }
  });

  test('allow their own style, and forms that lead back to the application', () => {
    const { html, headers } = pickerPage([], redirectUris);
    const style = /<style>([^]*)<\/style>/.exec(html)?.[1] ?? '';
    const policy = headers['content-security-policy'];
    assert.deepEqual(policy?.split('; '), [
      `default-src 'none'`,
      `style-src 'sha256-${hash('sha256', style, 'base64')}'`,
      `form-action 'self' http://127.0.0.1:8000 http://localhost:8000`,
      `base-uri 'none'`,
      `frame-ancestors 'none'`,
    ]);
  });

  test('load nothing and can be read by machines: language, title, one heading', () => {
    for (const { html } of [pickerPage([], redirectUris), lostInteractionPage(redirectUris)]) {
      assert.match(html, /^<!doctype html>\n<html lang="en">/);
      assert.match(html, /<title>[^<]+<\/title>/);
      assert.equal(html.match(/<h1>/g)?.length, 1);
      assert.doesNotMatch(html, /<script|<link|<img|src=|@import|url\(/);
    }
  });
});
