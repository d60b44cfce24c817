import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { describeImage } from '../../src/mock/describe-image.ts';
import type { ImageDescription } from '../../src/answers.ts';

const bytes = new Uint8Array(4_096);
const look = (hint?: string) => describeImage(bytes, hint ?? '');

const HINTS: [hint: string, room: ImageDescription['room_type']][] = [
  ['kitchen-1.jpg', 'kitchen'],
  ['http://127.0.0.1:8002/samples/images/kitchen-green.jpg?size=2', 'kitchen'],
  ['кухня.jpg', 'kitchen'],
  ['%D0%BA%D1%83%D1%85%D0%BD%D1%8F.jpg', 'kitchen'],
  ['kuhnya_02.webp', 'kitchen'],
  ['Ванна кімната.png', 'bathroom'],
  ['санузел.jpg', 'bathroom'],
  ['C:\\photos\\bathroom.jpg', 'bathroom'],
  ['спальня.jpg', 'bedroom'],
  ['bedroom-blue.jpg', 'bedroom'],
  ['вітальня.jpg', 'living_room'],
  ['living-room-sofa.jpg', 'living_room'],
  ['гостиная.jpg', 'living_room'],
  ['фасад.jpg', 'exterior'],
  ['house-brick.jpg', 'exterior'],
  ['floor-plan.jpg', 'plan'],
  ['план квартири.jpg', 'plan'],
  ['IMG_2041.jpg', 'other'],
  ['https://example.test/kitchen/', 'kitchen'],
  ['%E0%A4%A.jpg', 'other'],
];

describe('describeImage', () => {
  for (const [hint, room] of HINTS) {
    test(`${hint} shows ${room}`, () => assert.equal(look(hint).room_type, room));
  }

  test('without a hint says only that it is a picture', () => {
    assert.deepEqual(look(), {
      description: 'A picture of the property.',
      room_type: 'other',
      quality: 'good',
    });
  });

  test('finds tiny files and names that admit it poor', () => {
    assert.equal(describeImage(new Uint8Array(10), 'kitchen.png').quality, 'poor');
    assert.equal(look('kitchen-blurry.jpg').quality, 'poor');
    assert.equal(look('кухня темно.jpg').quality, 'poor');
    assert.equal(look('kitchen.jpg').quality, 'good');
  });

  test('never throws, whatever the name', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (hint) => {
        assert.ok(look(hint).description.length > 0);
      }),
    );
  });
});
