import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DatabaseError, isDatabaseOutage } from '@oselya/db';
import { finishTurn } from '../../src/chat/finish-turn.ts';
import { Turn } from '../../src/chat/turn.ts';

const outage = () =>
  Promise.reject(new DatabaseError('DATABASE_UNREACHABLE', 'It does not answer'));
const away = { transaction: () => ({ execute: outage }) } as never;

test(
  'the end of a process does not wait for the database on behalf of a turn that was cancelled before',
  { timeout: 30_000 },
  async () => {
    const turn = new Turn({ turnId: 't', sessionId: 's', position: 1 }, () => undefined);
    turn.stop('cancelled');
    const finishing = finishTurn(away, turn, {
      outcome: { status: 'cancelled' },
      answer: { content: 'Є', used: [] },
      sender: 'here',
      requestId: 'r',
    });
    turn.stop('closing');
    await assert.rejects(finishing, isDatabaseOutage);
    assert.equal(turn.stopReason, 'cancelled');
  },
);
