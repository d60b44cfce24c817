import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mediaTypeOf, TEXT_TYPE, UNKNOWN_TYPE } from '../../src/files/media-type.ts';

for (const [what, content, type] of [
  ['text', 'Дві кімнати', TEXT_TYPE],
  ['nothing', '', TEXT_TYPE],
  ['a page', '<!doctype html><script>alert(1)</script>', TEXT_TYPE],
  ['a picture that is markup', '<?xml version="1.0"?><svg onload="alert(1)"/>', TEXT_TYPE],
  ['a program', '#!/bin/sh\nrm -rf /\n', TEXT_TYPE],
  ['bytes that are no text', Buffer.from([0xff, 0x00, 0xfe, 0x81]), UNKNOWN_TYPE],
  ['text with a NUL', 'a\0b', UNKNOWN_TYPE],
  ['a PDF', '%PDF-1.7\n', 'application/pdf'],
  [
    'a picture that is called text',
    Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex'),
    'image/png',
  ],
] as const) {
  test(`${what} is ${type}`, async () => {
    assert.equal(await mediaTypeOf(Buffer.from(content as string)), type);
  });
}
