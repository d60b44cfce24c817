import { useLanguage } from '../i18n/language.tsx';
import { FACT_NAMES, formatFact } from '../listings/facts.ts';
import { formatDay } from '../listings/format.ts';
import type { ListingDetail } from '../listings/types.ts';
import classes from './listing.module.css';

/** Facts of a listing, each with its origin. */
export function Facts({ listing }: { listing: ListingDetail }) {
  const { language, messages } = useLanguage();
  const texts = messages.listings;
  const { currency } = listing;
  return (
    <>
      <p className={classes.dim}>{texts.page.factsHint}</p>
      <div className={classes.facts}>
        {FACT_NAMES.map((name) => {
          const text = formatFact(name, listing[name], { currency, language, texts });
          if (text === undefined) return null;
          return (
            <details key={name} className={classes.fact}>
              <summary>
                <span>{texts.fields[name]}</span>
                <b>{text}</b>
                <OriginLabel listing={listing} name={name} />
              </summary>
              <Origin listing={listing} name={name} />
            </details>
          );
        })}
      </div>
    </>
  );
}

type FactProps = { listing: ListingDetail; name: string };

function OriginLabel({ listing, name }: FactProps) {
  const { origins } = useLanguage().messages.listings.page;
  const origin = listing.provenance?.fields[name]?.origin;
  return (
    <small data-origin={origin}>{origin === undefined ? '' : (origins[origin] ?? origin)}</small>
  );
}

/** Sentences about the origin of a fact. */
function Origin({ listing: { provenance, corrections }, name }: FactProps) {
  const { language, messages } = useLanguage();
  const { originText: texts, origins, noValue } = messages.listings.page;
  const field = provenance?.fields[name];
  const correction = corrections[name];
  const sentences = [];
  if (correction !== undefined) {
    const { by, api_key_name: keyName } = correction.corrected_by;
    const day = formatDay(correction.corrected_at, language);
    const replaced = correction.replaced === null ? noValue : JSON.stringify(correction.replaced);
    sentences.push(texts.person(by ?? keyName ?? texts.somebody, day), texts.replaced(replaced));
  } else if (field?.origin === 'rule') {
    const rule = (field.rule ?? '').replaceAll('_', ' ');
    sentences.push(
      field.of === undefined ? texts.rule(rule) : texts.ruleOf(rule, origins[field.of] ?? field.of),
    );
  } else {
    sentences.push(field?.origin === 'model' ? texts.model(provenance?.model ?? '') : texts.source);
  }
  if (provenance?.raw_id != null) sentences.push(`${texts.payload(provenance.raw_id)}.`);
  return <p>{sentences.join(' ')}</p>;
}
