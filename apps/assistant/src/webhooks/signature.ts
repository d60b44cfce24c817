import { createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

/** Verified signature of the body alone, or of Standard Webhooks, which also sign the delivery ID. */
export type VerifiedSignature = { form: 'hmac' | 'standard'; deliveryId: string | null };

/** Reason for the rejection of a signature. It is logged, but not sent. */
type Rejection = {
  rejection:
    | 'secret_not_set'
    | 'standard_webhooks_only'
    | 'signature_missing'
    | 'signature_malformed'
    | 'signature_wrong'
    | 'timestamp_out_of_tolerance';
};

/** Function that verifies the raw body of a webhook with the signature in its headers. */
export type VerifySignature = (
  headers: IncomingHttpHeaders,
  body: Uint8Array,
) => VerifiedSignature | Rejection;

/** Maximum difference between the timestamp of a delivery and the clock. Contract 3. */
const TOLERANCE_SECONDS = 300;

const STANDARD_HEADERS = ['webhook-id', 'webhook-timestamp', 'webhook-signature'] as const;
const DELIVERY_ID_PATTERN = /^[\x21-\x7e]{1,255}$/;
const UNIX_SECONDS_PATTERN = /^\d{1,12}$/;
/** Matches `v1,… v1a,…`. Repeated headers are joined with a comma, and do not match. */
const SIGNATURES_PATTERN = /^[^\s,]+,[^\s,]+(?: [^\s,]+,[^\s,]+)*$/;

/** Matches base64 and base64url, with or without padding. */
const BASE64_KEY_PATTERN = /^(?:[\w+/-]{4})*(?:[\w+/-]{2,3}={0,2})?$/;
/** Minimum length of a key in Standard Webhooks. */
const MIN_KEY_BYTES = 24;

/** Matches 32 bytes in hex, the length of HMAC-SHA256. */
const SHA256_HEX_PATTERN = /^[0-9a-f]{64}$/i;
const SHA256_BASE64_PATTERN = /^[A-Za-z0-9+/_-]{43}=?$/;

/**
 * Creates a verifier for HMAC-SHA256 signatures of the raw body, which compares them in constant time.
 * Specification 000, Webhook verification; Contract 3, Webhooks; the Standard Webhooks specification, Signature scheme.
 * @param options.secret IDP_WEBHOOK_SECRET. The key is its text or, for Standard Webhooks, the decoded base64 after
 *   `whsec_`. Libraries of Standard Webhooks also decode a secret without the prefix, so both keys verify. An empty
 *   secret verifies nothing.
 * @param options.oldSecrets IDP_WEBHOOK_SECRETS_OLD: earlier secrets, which still verify.
 * @param options.isStandardOnly IDP_WEBHOOK_STANDARD_ONLY: rejects signatures of the body alone.
 * @param options.signatureHeader IDP_WEBHOOK_SIGNATURE_HEADER: the header of signatures of the body alone. Headers of
 *   Standard Webhooks take precedence.
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
  const bodyKeys = secrets.map((text) => Buffer.from(text));
  const standardKeys = secrets.flatMap(parseStandardKeys);
  const bodyHeader = signatureHeader.toLowerCase();
  const standardOnlyHeaders = STANDARD_HEADERS.filter((name) => name !== bodyHeader);

  function verifyBody(header: unknown, body: Uint8Array): VerifiedSignature | Rejection {
    if (header === undefined) return { rejection: 'signature_missing' };
    if (isStandardOnly) return { rejection: 'standard_webhooks_only' };
    const signature = typeof header === 'string' ? parseSignature(header) : undefined;
    if (signature === undefined) return { rejection: 'signature_malformed' };
    const isSigned = hasMatch([signature], computeSignatures(bodyKeys, body));
    return isSigned ? { form: 'hmac', deliveryId: null } : { rejection: 'signature_wrong' };
  }

  function verifyStandard(
    headers: IncomingHttpHeaders,
    body: Uint8Array,
  ): VerifiedSignature | Rejection {
    const [id, timestamp, signatures] = STANDARD_HEADERS.map((name) => headers[name]);
    if (id === undefined || timestamp === undefined || signatures === undefined) {
      return { rejection: 'signature_missing' };
    }
    if (!isMatch(DELIVERY_ID_PATTERN, id) || !isMatch(UNIX_SECONDS_PATTERN, timestamp)) {
      return { rejection: 'signature_malformed' };
    }
    if (!isMatch(SIGNATURES_PATTERN, signatures)) return { rejection: 'signature_malformed' };
    const skewSeconds = Math.abs(Math.floor(now() / 1000) - Number(timestamp));
    if (skewSeconds > TOLERANCE_SECONDS) return { rejection: 'timestamp_out_of_tolerance' };
    const expectedSignatures = computeSignatures(standardKeys, `${id}.${timestamp}.`, body);
    const isSigned = hasMatch(parseStandardSignatures(signatures), expectedSignatures);
    return isSigned ? { form: 'standard', deliveryId: id } : { rejection: 'signature_wrong' };
  }

  return (headers, body) =>
    standardOnlyHeaders.some((name) => headers[name] !== undefined)
      ? verifyStandard(headers, body)
      : verifyBody(headers[bodyHeader], body);
}

const computeSignatures = (keys: readonly Buffer[], ...parts: (string | Uint8Array)[]): Buffer[] =>
  keys.map((key) => {
    const hmac = createHmac('sha256', key);
    for (const part of parts) hmac.update(part);
    return hmac.digest();
  });

/** Compares all pairs, because an early exit would reveal which pair matches. */
function hasMatch(signatures: readonly Buffer[], expectedSignatures: readonly Buffer[]): boolean {
  const matches = signatures.flatMap((signature) =>
    expectedSignatures.filter((candidate) => timingSafeEqual(signature, candidate)),
  );
  return matches.length > 0;
}

/**
 * Returns the possible keys of a secret: the decoded part after `whsec_`, else the text and, if it has at least
 * MIN_KEY_BYTES, its decoded base64.
 */
function parseStandardKeys(secret: string): Buffer[] {
  const encodedKey = /^whsec_(.+)$/.exec(secret)?.[1];
  if (encodedKey !== undefined && BASE64_KEY_PATTERN.test(encodedKey))
    return [Buffer.from(encodedKey, 'base64')];
  const text = Buffer.from(secret);
  if (!BASE64_KEY_PATTERN.test(secret)) return [text];
  const decodedKey = Buffer.from(secret, 'base64');
  return decodedKey.length >= MIN_KEY_BYTES ? [text, decodedKey] : [text];
}

/** Parses a signature in hex or base64, with or without `sha256=`. */
function parseSignature(header: string): Buffer | undefined {
  const text = header.replace(/^sha256=/i, '');
  return SHA256_HEX_PATTERN.test(text) ? Buffer.from(text, 'hex') : parseBase64(text);
}

/** Parses the signatures of version 1. The header may contain several signatures, including those of other versions. */
function parseStandardSignatures(header: string): Buffer[] {
  return header
    .split(' ')
    .filter((entry) => entry.startsWith('v1,'))
    .map((entry) => parseBase64(entry.slice('v1,'.length)))
    .filter((signature) => signature !== undefined);
}

function parseBase64(text: string): Buffer | undefined {
  return SHA256_BASE64_PATTERN.test(text) ? Buffer.from(text, 'base64') : undefined;
}

function isMatch(pattern: RegExp, header: string | string[]): header is string {
  return typeof header === 'string' && pattern.test(header);
}
