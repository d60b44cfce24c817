import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import { chunk, streamed, writeEvent } from '@oselya/model/testing';
import { closings } from '@oselya/protocol';
import { socketLimits } from '@oselya/protocol';
import { gate } from '../helpers/scripted-model.ts';
import { until } from '../helpers/until.ts';
import { openStage, type Talker, talk } from './stage.ts';

const PART_BYTES = 64 * 1024;

/** Far more than the buffers of any system hold between two ends of a connection. */
const MOST_PARTS = 300;

const stage = await openStage({
  // As long an answer as can be: a token has six letters at most.
  ANSWER_MAX_TOKENS: '4000000',
  MODEL_CONTEXT_TOKENS: '10000000',
});
const { app, model, stored } = stage;
const sid = await stage.signIn('u-olena');
const olena = { url: stage.url, sid };

/** The server's ends of the connections to it, the newest last. */
const ends: Socket[] = [];
app.server.on('connection', (socket) => ends.push(socket));

/** An answer that is written part by part, as the test tells. */
function writtenAnswer() {
  const { promise, resolve } = Promise.withResolvers<ServerResponse>();
  const rest = gate();
  const wait = (response: ServerResponse) => {
    resolve(response);
    return rest.opened;
  };
  const end = [chunk({ content: 'Кінець.' }), chunk({}, { finishReason: 'stop' })];
  model.scripts.push({ answer: streamed([wait, ...end]) });
  const parts: string[] = [];
  return {
    parts,
    end: rest.open,
    /** Writes another part, and waits until somebody who reads has got it. */
    async write(reader: Talker): Promise<void> {
      assert.ok(parts.length < MOST_PARTS, 'what is not read has to wait somewhere');
      const mark = ` ${parts.length}.`;
      parts.push(mark.padStart(PART_BYTES, 'x'));
      writeEvent(await promise, chunk({ content: parts.at(-1) }));
      await until(() => String(reader.of('message.delta').at(-1)?.['text']).endsWith(mark));
    },
  };
}

const seqsOf = ({ client }: Talker) =>
  client.frames.flatMap(({ seq }) => (typeof seq === 'number' ? [seq] : []));

test('a client that does not read is closed with its code while its answer goes on, and catches up', async (t) => {
  const answer = writtenAnswer();
  t.after(answer.end);
  const quick = await talk(t, olena);
  const { session_id } = await quick.client.ask({ type: 'session.create', name: 'Довга' });
  const id = String(session_id);
  const slow = await talk(t, olena);
  const end = ends.at(-1);
  assert.ok(end !== undefined);
  await slow.client.ask({ type: 'session.open', session_id: id });
  await quick.say(id, 'Розкажи все');
  const { turn_id: turnId } = await slow.waitFor('message.started');

  slow.client.socket.pause();
  while (end.writableLength <= socketLimits.maxBufferedBytes) await answer.write(quick);
  // The first of these is one too many; what is kept for the client does not grow any more.
  for (let more = 0; more < 3; more += 1) {
    await answer.write(quick);
    const kept = end.writableLength;
    assert.ok(kept < socketLimits.maxBufferedBytes + 2 * PART_BYTES, String(kept));
  }
  slow.client.socket.resume();
  assert.deepEqual(await slow.client.closed, closings.tooSlow);
  const had = seqsOf(slow);
  assert.ok(slow.streamed.length < answer.parts.join('').length, 'something is left to catch up');

  // The answer goes on, whoever has gone, and is gone on with where the client was.
  await answer.write(quick);
  const again = await talk(t, olena);
  const opened = await again.client.ask({
    type: 'session.open',
    session_id: id,
    turn_id: turnId,
    after: had.at(-1),
  });
  assert.deepEqual(opened['turn'], { turn_id: turnId });
  await answer.write(again);
  answer.end();
  await again.waitFor('message.completed');
  const whole = `${answer.parts.join('')}Кінець.`;
  // Compared as a whole: what differs would be megabytes of a message.
  assert.ok(slow.streamed + again.streamed === whole, 'nothing is lost, and nothing comes twice');
  const later = seqsOf(again);
  for (const seqs of [had, later]) {
    assert.deepEqual(
      seqs,
      seqs.toSorted((one, other) => one - other),
    );
  }
  assert.ok(Number(later[0]) > Number(had.at(-1)));
  const [, [role, content, status] = []] = await stored(id);
  assert.deepEqual([role, status], ['assistant', null]);
  assert.ok(content === whole, 'the whole answer is stored');
  await quick.waitFor('message.completed');
  assert.ok(quick.streamed === whole, 'who reads is not held up');
});

test('sessions that are each larger than what may wait are opened in the middle of an answer, to whoever reads', async (t) => {
  const here = await talk(t, olena);
  const ids = [await here.newSession(), await here.newSession()];
  for (const session_id of ids) {
    await stage.db
      .insertInto('conversation_messages')
      .values(
        Array.from({ length: 50 }, (_, nth) => ({
          session_id,
          role: nth % 2 === 0 ? ('user' as const) : ('assistant' as const),
          content: 'щ'.repeat(60_000),
        })),
      )
      .execute();
  }
  const rest = gate();
  t.after(rest.open);
  model.scripts.push({ words: ['Раз ', 'два ', rest.opened, 'три.'] });
  await here.say(ids[0] ?? '', 'Рахуй');
  await here.hear('два ');
  const again = await talk(t, olena);
  const opened = await Promise.all(
    ids.map((session_id) => again.client.ask({ type: 'session.open', session_id })),
  );
  rest.open();
  await again.waitFor('message.completed');
  assert.equal(again.streamed, 'Раз два три.');
  assert.deepEqual(
    opened.map(({ messages }) => Array.isArray(messages) && messages.length >= 50),
    [true, true],
  );
});
