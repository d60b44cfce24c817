import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Readable, Writable } from 'node:stream';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import {
  type EndpointRecord,
  type Finding,
  type FindingCode,
  lintInventory,
  RULES,
} from '@oselya/inventory';
import draft04 from 'ajv-draft-04';
import formats from 'ajv-formats';
import fc from 'fast-check';
import {
  detectCredential,
  maskCredentials,
  maskId,
  maskRecord,
  maskValue,
  removeCredentials,
} from '../src/credentials.ts';
import { toDay } from '../src/day.ts';
import { Printer, WriteError } from '../src/command/command.ts';
import { type Reporter, REPORTERS } from '../src/reporters.ts';
import { formatCsvReport, formatHtmlReport } from '../src/report/report.ts';
import { getExcerpt, formatJson, shorten } from '../src/text.ts';
import { inChunks, run, validate, VALID_RECORD } from './support.ts';

test('Credentials in addresses are masked, and other text is unchanged', () => {
  for (const [text, maskedText] of [
    ['https://user:pw@a.example/x', 'https://***@a.example/x'],
    ['see postgres://u:p@db/x, and ftp://f:g@h', 'see postgres://***@db/x, and ftp://***@h'],
    ['https://token@a.example', 'https://***@a.example'],
    ['https://u:p@ss@a.example/@b', 'https://***@a.example/@b'],
    ['https://u:p/w?#@a.example', 'https://***@a.example'],
    [String.raw`https:\/\/u:p@a.example\/x`, String.raw`https:\/\/***@a.example\/x`],
    ['/0/https:~1~1u:p@a.example', '/0/https:~1~1***@a.example'],
    ['//u:p@a.example/', '//***@a.example/'],
    ['registry.example/u:p@a.example/x', 'registry.example/***@a.example/x'],
    ['u:p@a.example:5432', '***@a.example:5432'],
    ['u:p@ss@tcp(a.example:3306)/db', '***@tcp(a.example:3306)/db'],
    ["https://u:p'ss`x@a.example/", 'https://***@a.example/'],
    ['https://a/?token=SECRET&next=https://v:q@i/', 'https://a/?token=***&next=https://***@i/'],
    ['https://a/?token=SECRET,https://u:p@b/', 'https://a/?token=***'],
    ['https://a/?jsessionid=1&otp=2&session=3', 'https://a/?jsessionid=***&otp=***&session=***'],
    ['/x?API-Key=abc', '/x?API-Key=***'],
    ['https://a/#access_token=abc&state=1', 'https://a/#access_token=***&state=1'],
    [String.raw`https://a/?x=1\u0026password=abc`, String.raw`https://a/?x=1\u0026password=***`],
    ['/?X-Amz-Signature=a&X-Amz-Expires=9', '/?X-Amz-Signature=***&X-Amz-Expires=9'],
    ['jdbc:sqlserver://db;user=sa;password=a;b', 'jdbc:sqlserver://db;user=sa;password=***'],
    ['"https://u:p@a" and "https://v:q@b"', '"https://***@a" and "https://***@b"'],
  ] as const) {
    assert.equal(maskCredentials(text), maskedText);
  }
  for (const publicText of [
    'https://a.example:8443/@scope/x',
    'https://a.example/x?page=2&sort=asc',
    'https://[::1]/@scope/x',
    'https://a.example:80,https://b.example/@x',
    'olena@example.org',
    'mailto:olena@example.org',
    'git@github.com:oselya/oselya.git',
    'nginx:1.27@sha256:0f3c',
    '{"a":1,"token":2}',
    'On call:olena@x,pager:b@x',
    'npm:lodash@4.17.21',
    'ssh:root@web1',
    'urn:uuid:a@b',
    'https://a/?max_tokens=5&tokenizer=gpt&secretary=x&passwordless=1&author=b',
  ]) {
    assert.equal(maskCredentials(publicText), publicText);
  }
});

test('Passwords and secrets are masked at any position of their address', () => {
  const assertMasked = (text: string, ...secrets: string[]) => {
    const maskedText = maskCredentials(text);
    assert.ok(!secrets.some((secret) => maskedText.includes(secret)), maskedText);
  };
  const word = fc.stringMatching(/^[a-z ,()"'<>]{0,30}$/);
  const password = fc.stringMatching(/^[\w:/?@!$.%+-]{1,20}$/).map((text) => `Q${text}Q`);
  const passwordProperty = fc.property(word, word, password, (textBefore, textAfter, value) => {
    assertMasked(`${textBefore} https://u:${value}@host/ ${textAfter}`, value);
  });
  fc.assert(passwordProperty);
  const secret = fc.stringMatching(/^\w{1,9}$/).map((text) => `Q${text}Q`);
  const separator = fc.constantFrom('&next=', ',', '&x=1,');
  const tokenProperty = fc.property(secret, secret, separator, (token, userPassword, text) => {
    const parameters = `?token=${token}${text}`;
    assertMasked(`https://h/${parameters}https://u:${userPassword}@i/`, token, userPassword);
    assertMasked(`https://u:${userPassword}@i/${parameters}`, token, userPassword);
  });
  fc.assert(tokenProperty);
});

// Quadratic masking would take many minutes.
test('Masking takes linear time', { timeout: 60_000 }, async () => {
  const parts = ['@', 'a:', '://', '://u:p', '?a=', ',u:p@h:1x', '&token=', ';token=', ' //'];
  for (const part of parts) {
    assert.ok(maskCredentials(part.repeat(500_000 / part.length)).length > 0);
    // Node checks the time limit only between tasks.
    await setImmediate();
  }
});

test('IDs, URLs and other values have different masking rules', () => {
  for (const id of ['ssh:root@web1', 'ssh:git@web1:22', 'olena@x/y']) assert.equal(maskId(id), id);
  assert.equal(maskId('https://u:p@a/'), 'https://***@a/');
  const record = { id: 'ssh:git@web1:22', notes: 'u:p@a:22', url: 'https://u:p "s@a/' };
  const maskedRecord = { id: 'ssh:git@web1:22', notes: '***@a:22', url: 'https://***@a/' };
  assert.deepEqual(maskRecord(record), maskedRecord);
  const json = '{"u":["https://u:p@a",1,null],"__proto__":{"https://u:p@b":true}}';
  assert.equal(JSON.stringify(maskValue(JSON.parse(json))), json.replaceAll('u:p', '***'));
  for (const [url, publicUrl, credential] of [
    [' https://u:p@a/x?token=1&y=2#z ', 'https://a/x?y=2#z', 'a password'],
    ['https://u@a/', 'https://a/', 'a user name'],
    ['https://a/x?token=1', 'https://a/x', 'a secret in its query'],
    ['https://a/x?a=%20&b', 'https://a/x?a=%20&b', null],
    ['https://u:p s"s@a/', 'https://a/', 'a password'],
    ['https://u:p@x@a.test/b@c', 'https://a.test/b@c', 'a password'],
    ['https://a/?next=https://v:q@i/', 'https://a/?next=https://i/', 'a password'],
    ['https://a/?token=1&key=2&y=3', 'https://a/?y=3', 'a secret in its query'],
    ['https://a/x;token=1', 'https://a/x', 'a secret in its query'],
    ['https://a/x?token=1#z', 'https://a/x#z', 'a secret in its query'],
    ['https://a/?max_tokens=5&api_key=', 'https://a/?max_tokens=5&api_key=', null],
  ] as const) {
    assert.equal(removeCredentials(url), publicUrl);
    assert.equal(detectCredential(url), credential, url);
  }
});

test('Excerpts and shortened texts show no part of a password', async () => {
  const url = `https://user:${'hunter2'.repeat(300)}@a.example/`;
  const json = `{"url": "${url}", "port": 1}`;
  for (let offset = 0; offset < json.length; offset += 1) {
    const { text } = getExcerpt(json, offset);
    assert.doesNotMatch(text, /hunt|unter|ter2/, `at ${offset}: ${text}`);
  }
  const shortJson = json.replace('hunter2'.repeat(299), '');
  const text = '{"url": "https://***@a.example/", "port": 1}';
  assert.deepEqual(getExcerpt(shortJson, shortJson.indexOf('"port"')), { text, column: 35 });
  assert.doesNotMatch(shorten(url), /hunt/);
  assert.equal(shorten('a'.repeat(61)), `${'a'.repeat(60)}…`);
  assert.equal(shorten('a'.repeat(60)), 'a'.repeat(60));
  for (const source of [
    `[{"url":"https://u:hunter2@a","exposure":"https://u:hunter2@a","port":"https://u:hunter2@a/?token=hunter2"}]`,
    String.raw`[{"url":"https:\/\/u:hunter2@a","port":"x"}]`,
    `[{"url":"https://u:hunter2@a\n"}]`,
    `[] https://u:hunter2@a`,
    `["https://u:hunter2@a"`,
    `[{"https://u:hunter2@a":1,"https://u:hunter2@a":2}]`,
    `"https://u:hunter2@a"`,
  ]) {
    const chunks = inChunks(Buffer.from(source), [source.indexOf('ter2')]);
    const { findings } = await validate(chunks);
    assert.ok(findings.length > 0);
    for (const { message, excerpt, related } of findings) {
      assert.doesNotMatch(JSON.stringify([message, excerpt, related]), /hunt|ter2/);
    }
  }
});

const codes = Object.keys(RULES).filter((code): code is FindingCode => code in RULES);
const arbitraryText = fc.string({ unit: 'binary' });
const arbitraryColumn = fc.integer({ min: 1, max: 50 });
const locationArbitraries = {
  line: fc.integer({ min: 1, max: 10_000 }),
  column: arbitraryColumn,
  message: arbitraryText,
};
const arbitraryLocation = fc.record(locationArbitraries);

const arbitraryFinding: fc.Arbitrary<Finding> = fc.record({
  ...locationArbitraries,
  file: fc.string({ unit: 'binary', minLength: 1 }),
  pointer: arbitraryText,
  recordId: fc.option(arbitraryText),
  recordIndex: fc.option(fc.nat()),
  code: fc.constantFrom(...codes),
  severity: fc.constantFrom('error', 'warning'),
  related: fc.uniqueArray(arbitraryLocation, { maxLength: 2, selector: ({ line }) => line }),
  excerpt: fc.record({ text: arbitraryText, column: arbitraryColumn }),
});

const arbitraryFindings = fc.array(arbitraryFinding, { maxLength: 3 });

// Characters that control a terminal, or reorder or hide text.
const INVISIBLE_CHARACTER = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;

const TERMINAL_OPTIONS = { showsExcerpts: true, isColored: false };
const FILE_RESULT = { file: 'a.json', records: 1, errors: 1, warnings: 0, isComplete: true };

function formatFindings(reporter: Reporter, findings: Iterable<Finding>, reason?: string): string {
  const pieces = [reporter.formatStart()];
  for (const finding of findings) pieces.push(reporter.formatFinding(finding));
  const status = reason === undefined ? 'invalid' : 'unreadable';
  const result = { ...FILE_RESULT, status } as const;
  pieces.push(reporter.formatFileEnd(reason === undefined ? result : { ...result, reason }));
  pieces.push(reporter.formatEnd(reason === undefined ? 1 : 2));
  return pieces.join('');
}

test('JSON output is one document, and text output has no invisible characters', () => {
  const annotationPattern =
    /^::(error|warning) file=[^:,\n]+,line=\d+,col=\d+,title=[a-z/0-9-]+::.*\n$/;
  const property = fc.property(arbitraryFindings, (findings) => {
    const output = JSON.parse(formatFindings(REPORTERS.json(TERMINAL_OPTIONS), findings));
    const expected = findings.map(({ excerpt: _excerpt, ...finding }) =>
      JSON.parse(JSON.stringify(finding)),
    );
    assert.deepEqual([output.findings, output.files.length], [expected, 1]);
    for (const finding of findings) {
      const annotation = REPORTERS.github(TERMINAL_OPTIONS).formatFinding(finding);
      assert.match(annotation, annotationPattern);
      const terminalText = REPORTERS.text(TERMINAL_OPTIONS).formatFinding(finding);
      for (const line of (annotation + terminalText).split('\n'))
        assert.doesNotMatch(line, INVISIBLE_CHARACTER);
    }
  });
  fc.assert(property);
  const value = { 'a\u061C': ['\u202E\u007F\u{E0041}\u00AD\u200B', 'plain'], b: 1 };
  const json = formatJson(value, 2);
  assert.deepEqual(JSON.parse(json), value);
  for (const line of json.split('\n')) assert.doesNotMatch(line, INVISIBLE_CHARACTER);
  for (const file of ['::error title=x::pwn.json', ' ::stop-commands::x', '##[error]pwn.json']) {
    const result = { ...FILE_RESULT, file, status: 'valid', records: 0 } as const;
    const line = REPORTERS.github(TERMINAL_OPTIONS).formatFileEnd(result);
    assert.doesNotMatch(line, /^\s*::|##\[/);
    assert.match(line, /^checked .*: 0 records, valid\n$/);
  }
});

const schemaFile = import.meta.resolve('@microsoft/jest-sarif/lib/schemas/sarif-2.1.0-rtm.5.json');
const ajv = new draft04.default({ strict: false, allErrors: true, unicodeRegExp: false });
formats.default(ajv);
const isLog = ajv.compile(JSON.parse(readFileSync(new URL(schemaFile), 'utf8')));

/** Formats findings as a SARIF log, validates the log, and returns its only run. */
function formatSarifRun(findings: Iterable<Finding>, reason?: string) {
  const sarifLog = JSON.parse(formatFindings(REPORTERS.sarif(TERMINAL_OPTIONS), findings, reason));
  const isValid: boolean = isLog(sarifLog);
  assert.ok(isValid, ajv.errorsText(isLog.errors));
  return sarifLog.runs[0];
}

test('SARIF output is valid, with the page of each rule and the fixes of --fix', async () => {
  const arbitraryReason = fc.option(fc.string(), { nil: undefined });
  const property = fc.property(arbitraryFindings, arbitraryReason, (findings, reason) => {
    const { tool, results, invocations } = formatSarifRun(findings, reason);
    const ruleIds = results.map(
      (result: { ruleIndex: number }) => tool.driver.rules[result.ruleIndex].id,
    );
    const expectedIds = findings.map(({ code }) => code);
    assert.deepEqual(ruleIds, expectedIds);
    assert.equal(invocations[0].executionSuccessful, reason === undefined);
  });
  fc.assert(property);
  const { rules } = formatSarifRun([]).tool.driver;
  assert.equal(rules.length, Object.keys(RULES).length);
  for (const { id, help } of rules) {
    const [, page] = /^How to fix it: (\S+) in the package/.exec(help?.text ?? '') ?? [];
    assert.equal(page !== undefined, id.startsWith('lint/') || id === 'json/duplicate-key', id);
    if (page !== undefined) readFileSync(new URL(`../../../${page}`, import.meta.url));
  }
  const text = `[${JSON.stringify({ ...VALID_RECORD, port: '443' })}]`;
  const findings = await Array.fromAsync(lintInventory(text, { today: '2026-11-21' }));
  const { results } = formatSarifRun(findings);
  const [fix] = results.flatMap((result: { fixes?: unknown[] }) => result.fixes ?? []);
  const [{ deletedRegion, insertedContent }] = fix.artifactChanges[0].replacements;
  assert.equal(insertedContent.text, '443');
  const { startColumn, endColumn } = deletedRegion;
  assert.equal(text.slice(startColumn - 1, endColumn - 1), '"443"');
});

test('SARIF output has no more results than code scanning accepts', async () => {
  const [finding] = (await validate('[1]')).findings;
  assert.ok(finding);
  const { results, invocations } = formatSarifRun(Array<Finding>(25_002).fill(finding));
  assert.equal(results.length, 25_000);
  const [{ level, message }] = invocations[0].toolExecutionNotifications;
  assert.equal(level, 'warning');
  assert.match(message.text, /^2 findings omitted/);
});

test('Output waits for its reader, and immediate and delayed write errors are thrown', async () => {
  const callbacks: (() => void)[] = [];
  const slowStream = new Writable({
    highWaterMark: 1,
    write: (_chunk, _, callback) => void callbacks.push(callback),
  });
  const printer = new Printer(slowStream);
  const writeResult = printer.writeAll(Array<string>(3).fill('x'.repeat(64 * 1024)));
  await setImmediate();
  assert.equal(slowStream.writableLength, 64 * 1024);
  slowStream.destroy();
  await writeResult;
  assert.equal(printer.isClosed, true);
  for (const isDelayed of [false, true]) {
    const stream = new Writable({
      write(_chunk, _encoding, callback) {
        const fail = () => callback(Object.assign(new Error('full'), { code: 'ENOSPC' }));
        if (isDelayed) setTimeout(fail, 20);
        else fail();
      },
    });
    await assert.rejects(new Printer(stream).write('first'), WriteError);
  }
});

const today = toDay(new Date('2026-11-20'));
const LOCAL_RECORD: EndpointRecord = { ...VALID_RECORD, exposure: 'local' };
const formatPage = (records: EndpointRecord[]) =>
  [...formatHtmlReport(records, { title: 'net', today })].join('');

test('A report keeps joiners, counts future reviews, and warns of more than 5,000 records', async () => {
  const recordWithJoiners = { ...LOCAL_RECORD, name: 'می\u200cخواهم 👩\u200d💻 \u202e\u0007' };
  for (const report of [
    formatPage([recordWithJoiners]),
    [...formatCsvReport([recordWithJoiners])].join(''),
  ]) {
    assert.ok(report.includes(`می\u200cخواهم 👩\u200d💻 ${String.raw`\u202e\u0007`}`), report);
  }
  const futureRecord = { ...LOCAL_RECORD, last_reviewed: '2026-11-21' };
  const futurePage = formatPage([futureRecord, futureRecord, LOCAL_RECORD]);
  assert.match(futurePage, />in the future<[^]{0,80}>2</);
  const manyRecords = Array.from({ length: 5_001 }, (_, id) => ({ ...LOCAL_RECORD, id: `${id}` }));
  assert.doesNotMatch(formatPage(manyRecords.slice(1)), /may be slow/);
  assert.match(formatPage(manyRecords), /more than 5,000 records and may be slow/);
  for (const [format, log] of [
    ['html', /^oselya inventory report: a page of 5001 records is slow/],
    ['csv', /^$/],
  ] as const) {
    const stdin = Readable.from([Buffer.from(JSON.stringify(manyRecords))]);
    const { status, stderr } = await run(['report', '--format', format, '-'], { stdin });
    assert.equal(status, 0);
    assert.match(stderr, log);
  }
});
