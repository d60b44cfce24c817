import assert from 'node:assert/strict';
import fc from 'fast-check';
import { parseSourceSlug } from '../src/command.ts';
import { clientConfig } from '../src/config.ts';
import { showProgress } from '../src/progress.ts';
import { oneLine, printableJson } from '../src/terminal.ts';
import { PayloadSchema } from '@oselya/collector/payload';
import { ConfigError, loadConfig } from '@oselya/kit';
import { suite, test } from 'node:test';
import { Value } from 'typebox/value';

suite('arguments', () => {
  const isTaken = (value: string) => Value.Check(PayloadSchema.properties.source_slug, value);

  test('a source slug follows the payload schema', () => {
    for (const value of ['a', '9', 'lviv-doshka', 'a_b', 'z'.repeat(64)]) {
      assert.ok(isTaken(value), value);
      assert.equal(parseSourceSlug(value), value);
    }
    for (const value of ['', '-a', '_a', 'Doshka', 'a b', 'дошка', 'a\n', 'z'.repeat(65)]) {
      assert.ok(!isTaken(value), value);
      assert.throws(() => parseSourceSlug(value), /A source slug has lower-case letters/, value);
    }
  });
});

suite('variables', () => {
  const read = (env: Record<string, string>) => loadConfig(clientConfig, env);

  test('addresses and keys of a collector are read', () => {
    for (const url of [
      'http://127.0.0.1:9001',
      'https://oselya.example/collector/',
      'http://[::1]',
    ]) {
      assert.equal(read({ COLLECTOR_URL: url }).COLLECTOR_URL, url);
    }
    const key = 'oselya_00ff_AZaz09-_';
    assert.equal(read({ COLLECTOR_API_KEY: key }).COLLECTOR_API_KEY, key);
  });

  for (const [variable, value] of [
    ['COLLECTOR_URL', 'oselya.example'],
    ['COLLECTOR_URL', 'ftp://oselya.example'],
    ['COLLECTOR_URL', 'http://name:word@oselya.example'],
    ['COLLECTOR_URL', 'http://oselya.example?x=1'],
    ['COLLECTOR_URL', 'http://oselya.example:port'],
    ['COLLECTOR_API_KEY', 'two words'],
    ['COLLECTOR_API_KEY', 'ключ'],
    ['COLLECTOR_PORT', '0'],
  ] as const) {
    test(`${variable}=${value} is rejected by name, without its value`, () => {
      assert.throws(
        () => read({ [variable]: value }),
        (error) => {
          assert.ok(error instanceof ConfigError);
          assert.deepEqual(error.variables, [variable]);
          assert.ok(value === '0' || !error.message.includes(value));
          return true;
        },
      );
    });
  }
});

suite('terminal', () => {
  /** Whether a text holds a control character, a line break aside, or a mark that reorders text. */
  const acts = (text: string) =>
    /[\p{Cc}\u200E\u200F\u2028-\u202E\u2066-\u2069]/u.test(text.replaceAll('\n', ''));

  const texts = fc.string({
    unit: fc.oneof(
      fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
      fc.constantFrom('\u001B', '\n', '\u009B', '\u2028', '\u202E', '\uFEFF', '\uD800', 'ї', '🏡'),
    ),
  });

  test('control characters are removed from a line', () => {
    assert.equal(oneLine('\u001B[2JДім\r\n у\u202E Львові\u009B1m\u0000 '), '[2JДім у Львові1m');
    fc.assert(
      fc.property(texts, (text) => {
        assert.ok(!acts(oneLine(text)));
        assert.ok(!oneLine(text).includes('\n'));
      }),
    );
  });

  test('printed JSON escapes control characters', () => {
    assert.equal(printableJson({ a: '\u009B' }), '{\n  "a": "\\u009b"\n}');
    fc.assert(
      fc.property(texts, (text) => {
        const json = printableJson({ text });
        assert.ok(!acts(json));
        assert.deepEqual(JSON.parse(json), { text });
      }),
    );
  });
});

suite('progress', () => {
  /** What standard error is, as far as progress asks; all that is written to it can be read. */
  function output(isTTY: boolean) {
    const chunks: string[] = [];
    const stream: Partial<NodeJS.WriteStream> = {
      isTTY,
      columns: 200,
      write: (chunk: Uint8Array | string) => chunks.push(String(chunk)) > 0,
    };
    // readline asks for no more than `write` to move the cursor.
    return { stream: stream as NodeJS.WriteStream, written: () => chunks.splice(0).join('') };
  }

  const HIDE_CURSOR = '\u001B[?25l';
  const SHOW_CURSOR = '\u001B[?25h';
  const CLEAR_LINE = '\u001B[2K';

  test('a terminal shows a progress bar and its last state', () => {
    const { stream, written } = output(true);
    const progress = showProgress({ what: 'listings', total: 4 }, stream);
    const first = written();
    assert.ok(first.includes(HIDE_CURSOR));
    assert.match(first, /░{30} 0\/4 listings/);

    progress.update(1, '1 would change');
    progress.clear();
    const cleared = written();
    assert.ok(cleared.includes(CLEAR_LINE), 'a line of output gets an empty line');
    assert.ok(!cleared.includes('\n'));

    progress.update(3, '2 would change');
    progress.stop();
    const last = written();
    assert.match(last, /█{22,23}░{7,8} 3\/4 listings 2 would change \| .* left/);
    assert.ok(last.includes(SHOW_CURSOR));
    assert.ok(last.endsWith('\n'), 'the next line of output stands by itself');
  });

  test('without a terminal each tenth and the end are a line', () => {
    const { stream, written } = output(false);
    const progress = showProgress({ what: 'listings', total: 25 }, stream);
    for (let done = 0; done <= 25; done += 1)
      progress.update(done, done === 25 ? '9 embedded' : '');
    progress.update(25, '9 embedded');
    progress.clear();
    progress.stop();
    const lines = [3, 6, 9, 12, 15, 18, 21, 24].map((done) => `${done} of 25 listings`);
    assert.equal(written(), [...lines, '25 of 25 listings: 9 embedded', ''].join('\n'));
  });
});
