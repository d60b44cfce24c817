import { createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

/** The reason why a signature was rejected; it is logged and not sent. */
export type SignatureRejection =
  | 'secret_not_set'
  | 'standard_webhooks_only'
  | 'signature_missing'
  | 'signature_malformed'
  | 'signature_wrong'
  | 'timestamp_out_of_tolerance';

/** A verified signature: of the body alone, or as Standard Webhooks says, which also signs the delivery's id. */
type Verified = { form: 'hmac' | 'standard'; deliveryId: string | null };

/** Verifies the raw body of a webhook by its headers. */
export type VerifySignature = (
  headers: IncomingHttpHeaders,
  body: Uint8Array,
) => Verified | { rejection: SignatureRejection };

/** Maximum age of a delivery, and maximum difference of clocks. Contract 3. */
const TOLERANCE_SECONDS = 300;

const STANDARD_HEADERS = ['webhook-id', 'webhook-timestamp', 'webhook-signature'] as const;
const DELIVERY_ID = /^[\x21-\x7e]{1,255}$/;
const UNIX_SECONDS = /^\d{1,12}$/;
/** `v1,… v1a,…`. A header that was sent twice is joined with a comma, and fails. */
const SIGNATURES = /^[^\s,]+,[^\s,]+(?: [^\s,]+,[^\s,]+)*$/;

/** Both alphabets, padded or not. */
const KEY_BASE64 = /^(?:[\w+/-]{4})*(?:[\w+/-]{2,3}={0,2})?$/;
/** Minimum length of a key in Standard Webhooks. */
const KEY_BYTES = 24;

/** 32 bytes, the length of HMAC-SHA256. */
const HEX = /^[0-9a-f]{64}$/i;
const BASE64 = /^[A-Za-z0-9+/_-]{43}=?$/;

/**
 * Creates the check of signatures with HMAC-SHA256, in constant time, over the raw body. Specification 000, Webhook
 * verification; Contract 3, Webhooks; the Standard Webhooks specification, Signature scheme.
 * @param options.secret IDP_WEBHOOK_SECRET: its UTF-8 bytes are the key, and after `whsec_` its base64 is. Libraries of
 *   Standard Webhooks also decode a secret without the prefix, so both readings verify. Empty: nothing is verified.
 * @param options.oldSecrets IDP_WEBHOOK_SECRETS_OLD: earlier ones, which still verify.
 * @param options.isStandardOnly IDP_WEBHOOK_STANDARD_ONLY: rejects signatures of the body alone.
 * @param options.signatureHeader IDP_WEBHOOK_SIGNATURE_HEADER, the header of signatures of the body alone. Any header
 *   of Standard Webhooks takes precedence.
 * @param options.now Milliseconds since 1970.
 */
export function createVerifier({
  secret,
  oldSecrets = [],
  signatureHeader,
  isStandardOnly = false,
  now = Date.now,
}: {
  secret: string;
  oldSecrets?: readonly string[];
  signatureHeader: string;
  isStandardOnly?: boolean;
  now?: () => number;
}): VerifySignature {
  if (secret === '') return () => ({ rejection: 'secret_not_set' });
  const secrets = [secret, ...oldSecrets];
  const bodyKeys = secrets.map((one) => Buffer.from(one));
  const standardKeys = secrets.flatMap(readStandardKeys);
  const bodyHeader = signatureHeader.toLowerCase();
  const standardHeaders = STANDARD_HEADERS.filter((name) => name !== bodyHeader);

  function verifyBody(header: unknown, body: Uint8Array): ReturnType<VerifySignature> {
    if (header === undefined) return { rejection: 'signature_missing' };
    if (isStandardOnly) return { rejection: 'standard_webhooks_only' };
    const given = typeof header === 'string' ? readSignature(header) : undefined;
    if (given === undefined) return { rejection: 'signature_malformed' };
    const isSigned = isOneOf([given], bodyKeys.map(hmacOf(body)));
    return isSigned ? { form: 'hmac', deliveryId: null } : { rejection: 'signature_wrong' };
  }

  function verifyStandard(
    headers: IncomingHttpHeaders,
    body: Uint8Array,
  ): ReturnType<VerifySignature> {
    const [id, timestamp, signatures] = STANDARD_HEADERS.map((name) => headers[name]);
    if (id === undefined || timestamp === undefined || signatures === undefined) {
      return { rejection: 'signature_missing' };
    }
    if (!matches(DELIVERY_ID, id) || !matches(UNIX_SECONDS, timestamp)) {
      return { rejection: 'signature_malformed' };
    }
    if (!matches(SIGNATURES, signatures)) return { rejection: 'signature_malformed' };
    const skewSeconds = Math.abs(Math.floor(now() / 1000) - Number(timestamp));
    if (skewSeconds > TOLERANCE_SECONDS) return { rejection: 'timestamp_out_of_tolerance' };
    const expected = standardKeys.map(hmacOf(`${id}.${timestamp}.`, body));
    const isSigned = isOneOf(readStandardSignatures(signatures), expected);
    return isSigned ? { form: 'standard', deliveryId: id } : { rejection: 'signature_wrong' };
  }

  return (headers, body) =>
    standardHeaders.some((name) => headers[name] !== undefined)
      ? verifyStandard(headers, body)
      : verifyBody(headers[bodyHeader], body);
}

const hmacOf =
  (...parts: (string | Uint8Array)[]) =>
  (key: Buffer): Buffer => {
    const hmac = createHmac('sha256', key);
    for (const part of parts) hmac.update(part);
    return hmac.digest();
  };

/** Compares all pairs, so that the time does not reveal which pair is equal. */
function isOneOf(given: readonly Buffer[], expected: readonly Buffer[]): boolean {
  return given.flatMap((one) => expected.filter((it) => timingSafeEqual(one, it))).length > 0;
}

/** Returns the keys that a secret can stand for: its text, and its decoded form if it may be base64. */
function readStandardKeys(secret: string): Buffer[] {
  const named = /^whsec_(.+)$/.exec(secret)?.[1];
  if (named !== undefined && KEY_BASE64.test(named)) return [Buffer.from(named, 'base64')];
  const text = Buffer.from(secret);
  if (!KEY_BASE64.test(secret)) return [text];
  const decoded = Buffer.from(secret, 'base64');
  return decoded.length >= KEY_BYTES ? [text, decoded] : [text];
}

/** Reads hex or base64, with or without `sha256=`. */
function readSignature(header: string): Buffer | undefined {
  const text = header.replace(/^sha256=/i, '');
  return HEX.test(text) ? Buffer.from(text, 'hex') : readBase64(text);
}

/** Reads the signatures of version 1; a list may contain several, and other versions. */
function readStandardSignatures(header: string): Buffer[] {
  return header
    .split(' ')
    .filter((one) => one.startsWith('v1,'))
    .map((one) => readBase64(one.slice('v1,'.length)))
    .filter((signature) => signature !== undefined);
}

function readBase64(text: string): Buffer | undefined {
  return BASE64.test(text) ? Buffer.from(text, 'base64') : undefined;
}

function matches(pattern: RegExp, header: string | string[]): header is string {
  return typeof header === 'string' && pattern.test(header);
}
