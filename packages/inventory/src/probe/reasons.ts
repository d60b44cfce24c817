/** What Node and OpenSSL say of certificates (`X509_V_ERR_…` of openssl-verification-options(1)), in words. */
const DISTRUST = new Map([
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'it has signed itself'],
  ['SELF_SIGNED_CERT_IN_CHAIN', 'the authority that it leads to is not among the trusted ones'],
  ['UNABLE_TO_GET_ISSUER_CERT', 'one of those above it is missing'],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'who signed it is not known, or sends one too few'],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'who signed it is not known, or sends one too few'],
  ['CERT_HAS_EXPIRED', 'one above it has ended'],
  ['CERT_NOT_YET_VALID', 'it, or one above it, is not valid yet'],
  ['CERT_REVOKED', 'it was revoked'],
]);

/** What the system says when no connection opens, or one fails, in words and with what to look at. */
const FAILURES = new Map([
  ['ENOTFOUND', 'nothing has this name, as seen from here; correct the host'],
  ['EAI_AGAIN', 'names cannot be looked up now; try again'],
  ['ECONNREFUSED', 'nothing listens there; start it, or correct the port'],
  ['EHOSTUNREACH', 'no way leads there from here; look from its own network'],
  ['ENETUNREACH', 'no way leads there from here; look from its own network'],
  ['ETIMEDOUT', 'nothing answers; look for a firewall, or correct the host'],
  ['ECONNRESET', 'the other side ends it; look at the log there'],
  ['EACCES', 'this machine does not allow it; look at its firewall'],
  ['EPERM', 'this machine does not allow it; look at its firewall'],
  ['EPROTO', 'what answers does not speak TLS as it should; correct the protocol, or the server'],
]);

/** Why a certificate is not trusted, and what to do, with the code of it. */
export function distrustReason(code: string): string {
  const told = DISTRUST.get(code);
  const reason = told === undefined ? code : `${told} (${code})`;
  return `${reason}; replace what is wrong, or trust its authority, as with --ca`;
}

/** Why a connection failed, with the code of it where there is one. */
export function failureReason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (!('code' in error)) return error.message;
  const code = String(error.code);
  const told = FAILURES.get(code) ?? reasonByPrefix(code);
  return told === undefined ? code : `${told} (${code})`;
}

/** What other speech than TLS or HTTP leads to has many codes, with one beginning. */
function reasonByPrefix(code: string): string | undefined {
  if (code.startsWith('ERR_SSL_')) return FAILURES.get('EPROTO');
  if (code.startsWith('HPE_')) return 'what answers does not speak HTTP; correct the url';
  return undefined;
}
