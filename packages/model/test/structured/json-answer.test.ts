import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { jsonAnswer } from '../../src/structured/json-answer.ts';

suite('accepted', () => {
  const answers: [name: string, text: string][] = [
    ['bare JSON', '{"a":1}'],
    ['JSON with space around it', '\uFEFF\n {"a":1}\n'],
    ['a fence', '```json\n{"a":1}\n```'],
    ['a fence without a language', '```\n{"a":1}```'],
    ['a fence in capitals', '```JSON  \n{"a":1}\n  ```'],
    ['reasoning', '<think>{"a":2}</think>{"a":1}'],
    ['empty reasoning', '<think>\n\n</think>\n\n{"a":1}'],
    ['reasoning whose beginning the template has taken', 'Let me see…\n</think>\n{"a":1}'],
    ['reasoning and a fence', '<think>hm</think>\n```json\n{"a":1}\n```\n'],
  ];
  for (const [name, text] of answers) {
    test(name, () => assert.deepEqual(jsonAnswer(text), { a: 1 }));
  }

  test('any object in any of these forms, whatever its strings hold', () => {
    const nasty = fc.constantFrom('</think>', '<think>', '```', '```json\n{}\n```', '\\"');
    const value = fc.dictionary(fc.string(), fc.oneof(fc.string(), nasty, fc.integer()));
    const forms = fc.constantFrom(
      (json: string) => json,
      (json: string) => `\`\`\`json\n${json}\n\`\`\``,
      (json: string) => `<think>so {x} \`\`\`</think>\n${json}`,
    );
    fc.assert(
      fc.property(value, forms, (object, form) => {
        const json = JSON.stringify(object);
        assert.deepEqual(jsonAnswer(form(json)), JSON.parse(json));
      }),
    );
  });
});

suite('refused', () => {
  const answers: [name: string, text: string][] = [
    ['nothing', ''],
    ['prose', 'The price is 5.'],
    ['JSON in prose', 'Here it is: {"a":1}'],
    ['prose after JSON', '{"a":1} I hope this helps!'],
    ['prose around a fence', 'Sure!\n```json\n{"a":1}\n```'],
    ['two values', '{"a":1}\n{"a":2}'],
    ['reasoning without an end', '<think>{"a":1}'],
    ['a cut value', '{"a":'],
    ['a fence that is not closed', '```json\n{"a":1}'],
    ['a trailing comma', '{"a":1,}'],
  ];
  for (const [name, text] of answers) {
    test(name, () => assert.throws(() => jsonAnswer(text), SyntaxError));
  }
});
