/**
 * Names of parameters whose values are secrets, without case and signs. Whole names only: `max_tokens` and
 * `tokenizer` are none.
 */
const SECRET_NAMES = new Set(
  `
  token accesstoken apitoken authtoken idtoken jobtoken oauthtoken
  privatetoken refreshtoken securitytoken sessiontoken xamzsecuritytoken
  xauthtoken sastoken bottoken deploytoken logintoken personalaccesstoken
  pass passphrase passwd password pw pwd userpassword dbpassword
  sslpassword keystorepassword truststorepassword sslkeypassword
  secret appsecret clientsecret consumersecret sharedsecret webhooksecret
  secretkey secretaccesskey awssecretaccesskey
  key accesskey accountkey apikey appkey authkey clientkey consumerkey
  functionskey licensekey privatekey sharedkey sharedaccesskey xapikey
  subscriptionkey ocpapimsubscriptionkey awsaccesskeyid
  sig signature hmac oauthsignature sharedaccesssignature
  xamzsignature xgoogsignature credential credentials xamzcredential
  xgoogcredential auth authorization bearer jwt otp
  session sessionid sid jsessionid phpsessid
  `
    .trim()
    .split(/\s+/),
);

/** Whether a parameter of this name, decoded, is known to hold a secret. */
export function isSecretName(name: string): boolean {
  return SECRET_NAMES.has(name.toLowerCase().replaceAll(/[^a-z\d]/g, ''));
}
