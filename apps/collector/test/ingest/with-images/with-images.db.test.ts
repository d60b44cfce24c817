import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { rawRecord, store } from '../../support/database.ts';
import { formOf, sendForm } from '../../support/form.ts';
import { hasPicture, startModelServer } from '../../support/model-server.ts';
import { payloadOf } from '../../support/payload.ts';
import { until } from '../../support/until.ts';
import { noPicture, openUploads, pictureFile, sha256Of } from './harness.ts';

const { db, start, collector, send, untilNothingIsLeft } = await openUploads();

afterEach(untilNothingIsLeft);

const [red, blue] = [await pictureFile('red'), await pictureFile('blue')];

test('a payload with pictures is processed before the answer, whichever comes first', async () => {
  for (const metadataLast of [false, true]) {
    const payload = payloadOf();
    const answer = await send(formOf(payload, [red, noPicture, red], { metadataLast }));
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    const { raw_id: rawId, listing_id: listingId, status, images } = answer.body;
    assert.equal(status, 'completed');
    const stored = { sha256: sha256Of(red), width: 64, height: 48 };
    assert.deepEqual(images, [
      { ...stored, duplicate: metadataLast },
      { error: 'It is no JPEG, PNG, WebP, AVIF or GIF' },
      { ...stored, duplicate: true },
    ]);
    const raw = (await collector.get(`/api/v1/raw/${rawId}`)).json<{
      status: string;
      attempts: number;
      listing_id: number;
      stages: { stage: string }[];
    }>();
    assert.deepEqual([raw.status, raw.attempts, raw.listing_id], ['completed', 1, listingId]);
    assert.equal(raw.stages.length, 8);
    const shown = (await collector.get(`/api/v1/listings/${listingId}/images`)).json<
      { sha256: string | null; described_by: string | null; prompt_version: string | null }[]
    >();
    const described = [stored.sha256, 'mock', 'image-description.v2'];
    assert.deepEqual(
      shown.map((one) => [one.sha256, one.described_by, one.prompt_version]),
      [described, [null, null, null], described],
    );
    assert.equal((await collector.get(`/api/v1/images/${stored.sha256}`)).status, 200);
  }
});

test('a file of 50 MB is taken', async () => {
  const { name, bytes } = await pictureFile('salmon');
  const exact = new Uint8Array(50 * 1024 * 1024);
  // What follows a picture's end is of no account to whoever decodes it.
  exact.set(bytes);
  const { status, body } = await send(formOf(payloadOf(), [{ name, bytes: exact }]));
  assert.equal(status, 200, JSON.stringify(body));
  assert.equal(body.images[0]?.sha256, sha256Of({ name, bytes: exact }));
});

test('a picture that the model server refuses is told of, and the payload is completed', async () => {
  await using server = await startModelServer();
  await using seeing = await start({
    MODEL_MODE: 'openai',
    MODEL_BASE_URL: server.url,
    MODEL_CHAT: 'm',
    MODEL_VISION: 'v',
    MODEL_EMBEDDING: 'e',
  });
  server.state.refuses = hasPicture;
  const teal = await pictureFile('teal');
  const payload = payloadOf();
  const answer = await sendForm(seeing.url, formOf(payload, [teal]));
  assert.deepEqual([answer.status, answer.body.status], [200, 'completed']);
  const address = `/api/v1/listings/${answer.body.listing_id}/images`;
  const [shown] = (await seeing.get(address)).json<
    { sha256: string; described_by: string | null; describe_error: Record<string, string> }[]
  >();
  assert.deepEqual([shown?.sha256, shown?.described_by], [sha256Of(teal), null]);
  const { code, message, requested_model: model } = shown?.describe_error ?? {};
  assert.deepEqual([code, model], ['MODEL_REJECTED', 'v']);
  assert.match(message ?? '', /400 .*The image is too small/);
  const metrics = await (await fetch(`${seeing.url}/metrics`)).text();
  assert.match(metrics, /collector_images_total\{outcome="undescribed"\} 1\n/);
  const before = server.state.requests;
  const again = await sendForm(seeing.url, formOf(payload, [teal]));
  assert.deepEqual([again.status, server.state.requests], [200, before]);
});

test('metadata may be a JSON part or a file of its own; pictures win over addresses', async () => {
  const payload = payloadOf({ image_urls: ['http://127.0.0.1:9/never-asked.png'] });
  const form = formOf('', [blue]);
  form.delete('metadata');
  const json = new Blob([`\uFEFF${JSON.stringify(payload)}`], { type: 'application/json' });
  form.append('metadata', json, 'metadata.json');
  const answer = await send(form);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  assert.deepEqual(
    answer.body.images.map((one) => one.sha256),
    [sha256Of(blue)],
  );
});

test('without pictures those that the payload names are fetched, and bad ones told', async () => {
  const form = formOf(payloadOf({ image_urls: ['http://127.0.0.1:9/private.png'] }), []);
  // What browsers send where no file was chosen.
  form.append('images', new Blob([]), '');
  const answer = await send(form);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  assert.match(answer.body.images[0]?.error ?? '', /private or reserved/);
});

test('the same payload with the same pictures needs no model; other pictures replace them', async () => {
  const payload = payloadOf();
  const first = await send(formOf(payload, [red]));
  const again = await send(formOf(payload, [red]));
  assert.deepEqual(again.body.images, [{ ...first.body.images[0], duplicate: true }]);
  const stages = (await rawRecord(db, again.body.raw_id)).stages;
  assert.deepEqual(
    stages.map(({ stage, outcome }) => [stage, outcome]),
    [['load', 'unchanged']],
  );
  const other = await send(formOf(payload, [blue]));
  assert.equal(other.body.listing_id, first.body.listing_id);
  assert.deepEqual(
    other.body.images.map((one) => one.sha256),
    [sha256Of(blue)],
  );
});

test('a payload in the queue is not overtaken, nor does it overwrite what came later', async () => {
  const older = payloadOf({ price: 50_000, currency: 'USD' });
  const newer = { ...older, price: 48_000 };
  const rawId = await store(db, older);
  const answer = await send(formOf(newer, [red]));
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  await using _ = await start({ COLLECTOR_WORKER: 'true' });
  const raw = await until('the older payload', async () => {
    const record = await rawRecord(db, rawId);
    return record.status === 'completed' && record;
  });
  assert.equal(raw.stages.at(-1)?.outcome, 'superseded');
  const address = `/api/v1/listings/${answer.body.listing_id}`;
  assert.equal((await collector.get(address)).json<{ price: number }>().price, 48_000);
  const shown = (await collector.get(`${address}/images`)).json<{ sha256: string }[]>();
  assert.deepEqual(
    shown.map((one) => one.sha256),
    [sha256Of(red)],
  );
});
