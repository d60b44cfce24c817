import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { suite, test } from 'node:test';
import { Type } from 'typebox';
import { checkAnswer, InvalidAnswer } from '../../src/structured/check-answer.ts';

const Listing = Type.Object({
  city: Type.Union([Type.String(), Type.Null()]),
  rooms: Type.Integer({ minimum: 1 }),
  contact: Type.Object({ phones: Type.Array(Type.Object({ number: Type.String() })) }),
});

const VALID = { city: null, rooms: 2, contact: { phones: [{ number: '+380 00 000 00 00' }] } };

suite('checking an answer', () => {
  test('gives the value of a valid one', () => {
    assert.deepEqual(checkAnswer(Listing, JSON.stringify(VALID)), VALID);
  });

  test('drops unknown keys at every depth', () => {
    const answer = {
      ...VALID,
      extra: 1,
      contact: { phones: [{ ...VALID.contact.phones[0], kind: 'mobile' }], hours: '9–18' },
    };
    assert.deepEqual(checkAnswer(Listing, JSON.stringify(answer)), VALID);
  });

  test('drops unknown keys even where the schema forbids them', () => {
    const Strict = Type.Object({ a: Type.Number() }, { additionalProperties: false });
    assert.deepEqual(checkAnswer(Strict, '{"a":1,"b":2}'), { a: 1 });
  });

  test('converts nothing', () => {
    assert.throws(() => checkAnswer(Listing, JSON.stringify({ ...VALID, rooms: '2' })), {
      code: 'MODEL_INVALID_OUTPUT',
      message: /\/rooms must be integer/,
    });
  });

  for (const answer of ['[]', 'null', '"text"', '5']) {
    test(`refuses ${answer} where an object is asked for`, () => {
      assert.throws(() => checkAnswer(Listing, answer), /the answer must be object/);
    });
  }

  test('names at most eight problems, each once', () => {
    const phones = Array.from({ length: 40 }, () => ({ number: 5 }));
    const answer = JSON.stringify({ ...VALID, contact: { phones } });
    assert.throws(
      () => checkAnswer(Listing, answer),
      (error) => {
        assert.ok(error instanceof InvalidAnswer);
        assert.equal(error.problems.length, 8);
        assert.equal(new Set(error.problems).size, 8);
        return true;
      },
    );
  });

  test('keeps the answer for the repair, out of reach of loggers', () => {
    const answer = '{"city":"Теремки, call +380 00"}';
    assert.throws(
      () => checkAnswer(Listing, answer),
      (error) => {
        assert.ok(error instanceof InvalidAnswer);
        assert.equal(error.answer, answer);
        assert.ok(!inspect(error, { showHidden: true, depth: 9 }).includes('+380'));
        assert.ok(!JSON.stringify(error).includes('+380'));
        return true;
      },
    );
  });
});
