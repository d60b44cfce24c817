import { exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from 'jose';

/** A key that signs ID tokens, and what its owner publishes of it. */
export type SigningKey = {
  published: JWK;
  sign(claims: JWTPayload): Promise<string>;
};

/** Makes a key of a provider. */
export async function makeSigningKey(kid: string, alg = 'RS256'): Promise<SigningKey> {
  const { publicKey, privateKey } = await generateKeyPair(alg);
  return {
    published: { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' },
    sign: (claims) => new SignJWT(claims).setProtectedHeader({ alg, kid }).sign(privateKey),
  };
}
