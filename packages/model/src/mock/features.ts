import { compileTable, createPatternTester } from './text.ts';

/** Keywords of each feature in Ukrainian, Russian and English. */
const FEATURES = compileTable(String.raw`
air_conditioning: кондиціонер|кондиционер|кондер|air[- ]?con|a/c(?!\p{L})
alarm: сигналізаці|сигнализаци|alarm
appliances: технік[аоу]|(?:побутов|бытов)\p{L}* техн|техник[аоу]|пралк|пральн|стиральн|стиралк|холодильник|посудомий|посудомоеч|washing machine|washer|dishwasher|fridge|appliances
autonomous_heating: автоном\p{L}*|індивідуальн\p{L}* опал|індивід\p{L}*\.? опал|индивидуальн\p{L}* отопл|двоконтурн|двухконтурн|газов\p{L}+ кот[ел]|autonomous heating|own boiler|gas boiler|individual heating
balcony: балкон|лоджі|лоджи|balcon|loggia
exchange: обмін|обмен|exchange
fireplace: камін(?!н)|камин|fireplace
from_owner: від власни|власник(?!\p{L}* агент)|від хазяї|хазяїн|хозяин|хозяйка|от хозяина|от собственника|собственник|без посередник|без посредник|by owner|from (?:the )?owner|direct from
furnished: мебл(?:ьован|і|ями|ів)|умебльован|мебель|мебл|меблирован|мебелью|мебели|furnish|furniture
garage: гараж|garage
garden: сад(?:ок|у|ом|иб|ов)?(?!\p{L})|garden|подвіря|двор(?:ик)?(?!\p{L})
generator: генератор|інвертор|инвертор|безперебійн|бесперебойн|generator|inverter|backup power|ecoflow|екофлоу|сонячн\p{L}+ панел|solar
elevator: ліфт|лифт|elevator|lift(?!\p{L})
near_metro: метро|metro|subway|ст\. ?м\.
negotiable: торг|negotiab
new_building: новобудов|новобуд|новостро[йі]|новострой|новий будин|новий жк|новом доме|новому будин|новый дом|жк(?!\p{L})|new build|newly built|new development|new residential
no_commission: без комісі|без комисси|комісія 0|комиссия 0|0 ?% комі|0 ?% коми|без %|no commission|no (?:agency |agent )?fees?|zero commission|commission[- ]free
parking: паркінг|паркинг|парковк|паркомісц|паркуван|машиномісц|машиномест|parking|car space
pool: басейн|бассейн|pool
renovated: ремонт|євроремонт|евроремонт|відремонтован|отремонтирован|renovated|refurbished|renovation
sauna: саун|баня|баню|лазня|sauna
sea_view: вид(?:ом)? на море|видом моря|краєвид на море|sea ?view|ocean view|view of the sea
security: охорон|охран|консьєрж|консьерж|відеоспостереж|видеонаблюд|закрит\p{L}+ територ|закрыт\p{L}+ террит|security|concierge|gated
shelter: укритт|укрыти|бомбосхов|бомбоубеж|shelter
storage: комор[аиу]|кладов|storage room|pantry
terrace: терас|террас|terrace|patio
utilities_included: комун\p{L}* (?:вже |уже )?(?:включ|входят|входить|в ціні)|коммун\p{L}* (?:уже )?(?:включ|входят|в цен)|все включено|всё включено|utilities included|bills included|utilities incl|all inclusive
wifi: wi-? ?fi|вай-? ?фай|інтернет|интернет|internet
`);

const PETS = String.raw`тварин\p{L}*|животн\p{L}*|pets?|котик\p{L}*|котом|кішк\p{L}*|кошк\p{L}*|кот[аи]м[иі]|собак\p{L}*|песик\p{L}*|улюбленц\p{L}*|питомц\p{L}*|хвостик\p{L}*|dogs?|cats?`;

const says = createPatternTester(String.raw`
# A denial directly before the keyword: "без балкона".
deniedBefore: (?:^|[^\p{L}])(?:без|крім|кроме|except|немає|нема|нет|no|not|without|не|ні|ни|un|потребує|требует|потрібен|нужен|під|под|needs?|requires?)(?: \p{L}+(?:ого|ої|ого|ой|а|у|ий|ый|ие|я|s|ic))? $
# A denial directly after the keyword: "ліфта немає".
deniedAfter: ^\p{L}* (?:немає|нема|нет|відсутн|отсутств|не працює|не пропон|не предлаг|не розгляд|не рассматр|не работает|поки немає)
no_pets: (?:без|no|не (?:з|с|для)|тільки без|крім|кроме|not allowed)[^.;\n]{0,24}(?<!\p{L})(?:${PETS})(?!\p{L})|(?:${PETS})(?!\p{L})[^.,;\n]{0,16}(?<!\p{L})(?:не(?!\p{L})|ні|нельзя|заборон|запрещ|not|нет)
pets_allowed: (?:можна|можно|дозвол\p{L}*|разреш\p{L}*|розглян\p{L}*|раді|рады|не проти|не против)[^.;\n]{0,24}(?<!\p{L})(?:${PETS})(?!\p{L})|(?<!\p{L})(?:${PETS})(?!\p{L})[ -]?[^.,;\n]{0,12}(?<!\p{L})(?:ok|okay|allowed|welcome|friendly|можна|можно|дозвол|вітаються|разреш|considered|fine)
needs_renovation: (?:без|потребує|потребують|требует|під|под|нужен|потрібен|needs?|requires?)(?: \p{L}+){0,2} (?:ремонт|renovat|refurb|work)|чорнов\p{L}+ роб|строительн\p{L}+ состоян|без оздоблення|після будівельників|от строителей|від будівельників
unfurnished: unfurnished|немебльован|не мебльован|порожн\p{L}+ квартир|без мебл|без мебел
`);

/** Features whose keywords contain a denial themselves, such as "без комісії". A denial before them is ignored. */
const FEATURES_WITH_DENIAL = new Set(['no_commission', 'from_owner']);

/** Slugs of all features, sorted. */
export const FEATURE_SLUGS: readonly string[] = [
  ...FEATURES.map(([slug]) => slug),
  'needs_renovation',
  'no_pets',
  'pets_allowed',
].toSorted();

function isAffirmed(text: string, [slug, pattern]: (typeof FEATURES)[number]): boolean {
  for (const match of text.matchAll(pattern)) {
    if (FEATURES_WITH_DENIAL.has(slug)) return true;
    const end = match.index + match[0].length;
    const before = text.slice(Math.max(0, match.index - 28), match.index);
    const after = text.slice(end, end + 32);
    if (!says('deniedBefore', before) && !says('deniedAfter', after)) return true;
  }
  return false;
}

/** Returns the features that a folded text affirms, sorted. Omits denied features, such as "без ремонту". */
export function readFeatures(folded: string): string[] {
  const found = FEATURES.filter((feature) => isAffirmed(folded, feature)).map(([slug]) => slug);
  const features = new Set(found);
  if (says('no_pets', folded)) features.add('no_pets');
  else if (says('pets_allowed', folded)) features.add('pets_allowed');
  if (says('needs_renovation', folded)) features.add('needs_renovation');
  if (says('unfurnished', folded)) features.delete('furnished');
  return [...features].toSorted();
}
