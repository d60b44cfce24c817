import { createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

/** Why a webhook is not taken for the provider's. It is for the log: the sender does not learn it. */
export type SignatureRefusal =
  | 'secret_not_set'
  | 'standard_webhooks_only'
  | 'signature_missing'
  | 'signature_malformed'
  | 'signature_wrong'
  | 'timestamp_out_of_tolerance';

/** How a webhook was signed: over the body alone, or as Standard Webhooks says. */
export type SignatureForm = 'hmac' | 'standard';

/** A webhook that the provider signed, with the id of the delivery where that is signed too. */
type Verified = { form: SignatureForm; deliveryId: string | null };

/** Judges the raw body of a webhook by its headers. */
export type VerifySignature = (
  headers: IncomingHttpHeaders,
  body: Uint8Array,
) => Verified | { refusal: SignatureRefusal };

/** How far the provider's clock and this one may be apart, and a delivery be under way. Contract 3. */
const TOLERANCE_SECONDS = 300;

const STANDARD_HEADERS = ['webhook-id', 'webhook-timestamp', 'webhook-signature'] as const;
const DELIVERY_ID = /^[\x21-\x7e]{1,255}$/;
const UNIX_SECONDS = /^\d{1,12}$/;
/** `v1,… v1a,…`. A header that was sent twice comes joined with a comma, and so fails. */
const SIGNATURES = /^[^\s,]+,[^\s,]+(?: [^\s,]+,[^\s,]+)*$/;

/** Both alphabets, padded or not. */
const KEY_BASE64 = /^(?:[\w+/-]{4})*(?:[\w+/-]{2,3}={0,2})?$/;
/** The least that Standard Webhooks asks of a key. */
const KEY_BYTES = 24;

/** 32 bytes, which is what HMAC-SHA256 gives. */
const HEX = /^[0-9a-f]{64}$/i;
const BASE64 = /^[A-Za-z0-9+/_-]{43}=?$/;

/**
 * Verifies webhooks with HMAC-SHA256, in constant time, over the body as it came. Specification 000,
 * Webhook verification; Contract 3, Webhooks; the Standard Webhooks specification, Signature scheme.
 * @param secret IDP_WEBHOOK_SECRET: its UTF-8 bytes are the key. Behind `whsec_` stands the key of
 * Standard Webhooks in base64. Its libraries take a secret without that prefix for base64 too, so that
 * one which can be that is tried both ways. Without a secret nothing is verified.
 * @param oldSecrets IDP_WEBHOOK_SECRETS_OLD: earlier ones, which still verify.
 * @param isStandardOnly IDP_WEBHOOK_STANDARD_ONLY: the HMAC of the body alone does not count.
 * @param signatureHeader IDP_WEBHOOK_SIGNATURE_HEADER, which holds the HMAC of the body alone. As soon as
 * another header of Standard Webhooks is there, that form is what counts.
 * @param now Milliseconds.
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
  if (secret === '') return () => ({ refusal: 'secret_not_set' });
  const secrets = [secret, ...oldSecrets];
  const bodyKeys = secrets.map((one) => Buffer.from(one));
  const standardKeys = secrets.flatMap(readStandardKeys);
  const bodyHeader = signatureHeader.toLowerCase();
  const standardHeaders = STANDARD_HEADERS.filter((name) => name !== bodyHeader);

  function verifyBody(header: unknown, body: Uint8Array): ReturnType<VerifySignature> {
    if (header === undefined) return { refusal: 'signature_missing' };
    if (isStandardOnly) return { refusal: 'standard_webhooks_only' };
    const given = typeof header === 'string' ? readSignature(header) : undefined;
    if (given === undefined) return { refusal: 'signature_malformed' };
    const isSigned = isOneOf([given], bodyKeys.map(hmacOf(body)));
    return isSigned ? { form: 'hmac', deliveryId: null } : { refusal: 'signature_wrong' };
  }

  function verifyStandard(
    headers: IncomingHttpHeaders,
    body: Uint8Array,
  ): ReturnType<VerifySignature> {
    const [id, timestamp, signatures] = STANDARD_HEADERS.map((name) => headers[name]);
    if (id === undefined || timestamp === undefined || signatures === undefined) {
      return { refusal: 'signature_missing' };
    }
    if (!matches(DELIVERY_ID, id) || !matches(UNIX_SECONDS, timestamp)) {
      return { refusal: 'signature_malformed' };
    }
    if (!matches(SIGNATURES, signatures)) return { refusal: 'signature_malformed' };
    const skewSeconds = Math.abs(Math.floor(now() / 1000) - Number(timestamp));
    if (skewSeconds > TOLERANCE_SECONDS) return { refusal: 'timestamp_out_of_tolerance' };
    const expected = standardKeys.map(hmacOf(`${id}.${timestamp}.`, body));
    const isSigned = isOneOf(readStandardSignatures(signatures), expected);
    return isSigned ? { form: 'standard', deliveryId: id } : { refusal: 'signature_wrong' };
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

/** Compares each with each, so that the time does not tell which of them fits. */
function isOneOf(given: readonly Buffer[], expected: readonly Buffer[]): boolean {
  return given.flatMap((one) => expected.filter((it) => timingSafeEqual(one, it))).length > 0;
}

/**
 * The keys that a secret can stand for. A plain text that happens to be base64 loses nothing by it: who
 * can guess the bytes can guess the text.
 */
function readStandardKeys(secret: string): Buffer[] {
  const named = /^whsec_(.+)$/.exec(secret)?.[1];
  if (named !== undefined && KEY_BASE64.test(named)) return [Buffer.from(named, 'base64')];
  const text = Buffer.from(secret);
  if (!KEY_BASE64.test(secret)) return [text];
  const decoded = Buffer.from(secret, 'base64');
  return decoded.length >= KEY_BYTES ? [text, decoded] : [text];
}

/** The HMAC of the body as hex or base64, `sha256=` before it or not. */
function readSignature(header: string): Buffer | undefined {
  const text = header.replace(/^sha256=/i, '');
  return HEX.test(text) ? Buffer.from(text, 'hex') : readBase64(text);
}

/** Those of version 1; a list may hold several, of old and new keys, and versions of other schemes. */
function readStandardSignatures(header: string): Buffer[] {
  return header
    .split(' ')
    .filter((one) => one.startsWith('v1,'))
    .map((one) => readBase64(one.slice('v1,'.length)))
    .filter((signature) => signature !== undefined);
}

/** Both alphabets, padded or not. */
function readBase64(text: string): Buffer | undefined {
  return BASE64.test(text) ? Buffer.from(text, 'base64') : undefined;
}

function matches(pattern: RegExp, header: string | string[]): header is string {
  return typeof header === 'string' && pattern.test(header);
}
