import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { describe, test } from 'node:test';
import { type DevAccount, sampleAccounts } from '../../src/accounts.ts';
import { controlPage, refusedPage } from '../../src/control/page.ts';
import type { WebhookDelivery } from '../../src/webhooks/webhooks.ts';

const redirectUris = ['http://127.0.0.1:8000/auth/callback'];
const hostile = `"><img src=x onerror='alert(1)'>&`;
const delivery: WebhookDelivery = {
  id: 'msg_1',
  event: 'user.blocked',
  user_id: 'u-olena',
  occurred_at: '2026-03-01T10:20:30.000Z',
  state: 'delivered',
  attempts: 1,
  detail: 'answered 200',
};

type Shown = Parameters<typeof controlPage>[0];

function pageWith(shown: Partial<Shown> = {}, deliveries: WebhookDelivery[] = []): string {
  const webhooks = { url: 'http://127.0.0.1:8000/webhooks/idp', recent: () => deliveries };
  const defaults = { accounts: sampleAccounts, webhooks, redirectUris, notice: undefined };
  return controlPage({ ...defaults, ...shown }).html;
}

/** What a reader sees: the text between tags, with single spaces. */
const textOf = (html: string) =>
  html
    .replaceAll(/<style>[^]*<\/style>|<[^>]*>/g, ' ')
    .replaceAll('&#39;', "'")
    .replaceAll(/\s+/g, ' ');

/** The part of the page that is about one account. */
function cardOf(html: string, name: string): string {
  const card = html.split('<section').find((section) => section.includes(name));
  assert.ok(card);
  return card;
}

describe('the control page', () => {
  test('says of each account who it is, what it may do, and whether it is blocked', () => {
    const [olena, taras] = sampleAccounts;
    assert.ok(olena && taras);
    const html = pageWith({ accounts: [olena, { ...taras, blocked: true, permission_ids: [] }] });
    assert.match(
      textOf(cardOf(html, 'Olena Koval')),
      /Olena Koval active olena@example\.test · u-olena Roles svc_user Permissions svc\.sessions\.read_own/,
    );
    assert.match(
      textOf(cardOf(html, 'Taras Melnyk')),
      /Taras Melnyk blocked taras@example\.test · u-taras Roles svc_admin Permissions none/,
    );
  });

  test('offers the acts that make sense, each under a name that says whom it is about', () => {
    const [olena, taras] = sampleAccounts;
    assert.ok(olena && taras);
    const html = pageWith({ accounts: [olena, { ...taras, blocked: true }] });
    const buttons = [...html.matchAll(/<form [^>]*action="([^"]*)">[^]*?<\/form>/g)].map(
      ([form, action]) => [action, textOf(/<button[^]*<\/button>/.exec(form)?.[0] ?? '').trim()],
    );
    assert.deepEqual(buttons, [
      ['/control/block', 'Block Olena Koval'],
      ['/control/revoke-sessions', 'Revoke sessions Olena Koval'],
      ['/control/access', 'Save roles and permissions of Olena Koval'],
      ['/control/unblock', 'Unblock Taras Melnyk'],
      ['/control/revoke-sessions', 'Revoke sessions Taras Melnyk'],
      ['/control/access', 'Save roles and permissions of Taras Melnyk'],
      ['/control/log-out-everybody', 'Log everybody out'],
    ]);
  });

  test('has a labelled box for every role and permission, ticked where the account has it', () => {
    const html = cardOf(pageWith(), 'Olena Koval');
    const boxes = [
      ...html.matchAll(
        /<label>\s*<input type="checkbox" name="(role|permission)" value="([^"]*)" (checked)? ?\/>\s*<span\s*><code>([^<]*)</g,
      ),
    ];
    assert.equal(boxes.length, 2 + 13);
    for (const [, , value, , label] of boxes) assert.equal(label, value);
    const ticked = boxes.filter(([, , , checked]) => checked).map(([, , value]) => value);
    assert.deepEqual(ticked, ['svc_user', ...(sampleAccounts[0]?.permission_ids ?? [])]);
    assert.equal(html.match(/<fieldset>\s*<legend>/g)?.length, 2);
  });

  test('tells what was done, takes the focus there, and says how the event fares', () => {
    const notice = { message: 'Olena Koval is blocked.', deliveries: [delivery] };
    const html = pageWith({ notice });
    const box = /<div class="notice" role="status" tabindex="-1" autofocus>[^]*?<\/div>/.exec(html);
    assert.match(
      textOf(box?.[0] ?? ''),
      /Olena Koval is blocked\. user\.blocked delivered: answered 200/,
    );
    assert.doesNotMatch(pageWith(), /role="status"/);
  });

  test('lists the latest webhooks: event, whom, when, and what came of it', () => {
    const { user_id: _, ...everybody } = delivery;
    const html = pageWith({}, [
      { ...everybody, event: 'auth.global_logout', state: 'failed', detail: 'answered 404' },
      { ...delivery, state: 'waiting', attempts: 2, detail: 'answered 500' },
      { ...delivery, user_id: 'u-gone' },
      delivery,
    ]);
    const rows = [...html.matchAll(/<li>[^]*?<\/li>/g)].map(([row]) => textOf(row).trim());
    assert.match(rows[0] ?? '', /^auth\.global_logout everybody .* not delivered: answered 404$/);
    assert.match(
      rows[1] ?? '',
      /^user\.blocked Olena Koval .* being delivered: answered 500 at attempt 2$/,
    );
    assert.match(rows[2] ?? '', /^user\.blocked u-gone .* delivered: answered 200$/);
    assert.match(rows[3] ?? '', /^user\.blocked Olena Koval .*2026.* delivered: answered 200$/);
    assert.match(html, /<time datetime="2026-03-01T10:20:30\.000Z">/);
    assert.match(textOf(html), /told to http:\/\/127\.0\.0\.1:8000\/webhooks\/idp/);
  });

  test('says when nobody is told, when nothing has happened, and when to look again', () => {
    const webhooks = { url: undefined, recent: () => [] };
    assert.match(textOf(pageWith({ webhooks })), /No webhook is set up: nobody is told/);
    assert.match(textOf(pageWith()), /Nothing has happened yet/);
    assert.doesNotMatch(textOf(pageWith({}, [delivery])), /Nothing has happened|Look again/);
    const waiting = { ...delivery, state: 'waiting' } as const;
    assert.match(textOf(pageWith({}, [waiting])), /Look again/);
  });

  test('shows whatever it is given as text', () => {
    const account: DevAccount = {
      sub: hostile,
      email: hostile,
      display_name: hostile,
      role_ids: [hostile],
      permission_ids: [hostile],
      blocked: false,
    };
    const bad = { ...delivery, user_id: hostile, detail: hostile };
    const html = pageWith(
      {
        accounts: [account],
        webhooks: {
          url: `http://127.0.0.1/${hostile}`,
          recent: () => [bad, { ...bad, user_id: 'x' }],
        },
        notice: { message: hostile, deliveries: [bad] },
      },
      [],
    );
    for (const text of [html, refusedPage(hostile, redirectUris).html]) {
      assert.doesNotMatch(text, /<img|onerror='/);
      assert.ok(text.includes('&#34;&#62;&#60;img src=x onerror=&#39;alert(1)&#39;&#62;&#38;'));
    }
  });

  test('has no script, no handler and no style beside its own, and ids that differ', () => {
    const { html, headers } = controlPage({
      accounts: sampleAccounts,
      webhooks: { url: undefined, recent: () => [delivery] },
      redirectUris,
      notice: undefined,
    });
    assert.doesNotMatch(html, /<script|<link|<img| src=| style=| on[a-z]+=|javascript:|url\(/);
    const style = /<style>([^]*)<\/style>/.exec(html)?.[1] ?? '';
    assert.deepEqual(headers['content-security-policy']?.split('; '), [
      `default-src 'none'`,
      `style-src 'sha256-${hash('sha256', style, 'base64')}'`,
      `form-action 'self' http://127.0.0.1:8000`,
      `base-uri 'none'`,
      `frame-ancestors 'none'`,
    ]);
    assert.equal(html.match(/<h1>/g)?.length, 1);
    const ids = [...html.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id);
    assert.equal(new Set(ids).size, ids.length);
    for (const [, target] of html.matchAll(/aria-labelledby="([^"]*)"/g)) {
      assert.ok(ids.includes(target));
    }
  });
});
