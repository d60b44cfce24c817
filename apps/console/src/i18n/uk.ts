import type { Messages } from './messages.ts';
import { createPlural } from './plural.ts';

const count = createPlural('uk');

export const uk = {
  language: 'Українська',
  search: 'Пошук',
  map: 'Карта',
  boards: 'Добірки',
  saved: 'Збережені пошуки',
  chat: 'Чат',
  memory: 'Пам’ять',
  account: 'Профіль',
  admin: 'Адміністрування',
  compare: 'Порівняння',
  commands: 'Перейти на сторінку або виконати команду',
  noCommand: 'Такої команди немає',
  skipToContent: 'До вмісту',
  theme: { label: 'Тема', light: 'Світла', dark: 'Темна', auto: 'Як у системі' },
  signIn: {
    title: 'Ваші оголошення в одному місці',
    text: 'Шукайте, порівнюйте й обговорюйте оселі, які збираєте.',
    button: 'Увійти',
    ended: 'Сеанс завершено. Введене збережено: увійдіть знову, щоб продовжити.',
  },
  untitled: 'Оголошення без назви',
  noPrice: 'Без ціни',
  rooms: (value) =>
    value === 0
      ? 'Студія'
      : count(value, { one: '# кімната', few: '# кімнати', other: '# кімнат' }),
  floor: (floor, floors) => (floors === null ? `${floor} поверх` : `${floor} поверх із ${floors}`),
  adverts: (value) =>
    count(value, { one: '# оголошення', few: '# оголошення', other: '# оголошень' }),
  found: (value, isBound) =>
    `${isBound ? 'Щонайменше ' : ''}${count(value, { one: '# оголошення', few: '# оголошення', other: '# оголошень' })}`,
  searchBox: 'Дві кімнати біля парку у Львові до 15 000 грн',
  nothingFound: 'Нічого не знайдено',
  clearFilters: 'Скинути всі фільтри',
  loadMore: 'Показати ще',
  sort: {
    label: 'Порядок',
    newest: 'Спершу нові',
    price_asc: 'Спершу дешеві',
    price_desc: 'Спершу дорогі',
    price_per_m2_asc: 'Найдешевші за м²',
    price_per_m2_desc: 'Найдорожчі за м²',
    area_asc: 'Спершу малі',
    area_desc: 'Спершу великі',
  },
  facets: {
    deal_type: 'Угода',
    property_type: 'Вид',
    city: 'Місто',
    district: 'Район',
    source_slug: 'Джерело',
  },
  values: {
    sale: 'Продаж',
    rent: 'Оренда',
    daily_rent: 'Подобово',
    apartment: 'Квартира',
    house: 'Будинок',
    room: 'Кімната',
    land: 'Ділянка',
    commercial: 'Комерційна',
    garage: 'Гараж',
  },
  signOut: 'Вийти',
  error: {
    title: 'Щось пішло не так',
    network: 'Сервер недоступний. Перевірте з’єднання та спробуйте ще раз.',
    request: (id) => `Запит ${id}`,
    retry: 'Спробувати ще раз',
    retryIn: (seconds) =>
      `Спробувати ще раз через ${count(seconds, { one: '# секунду', few: '# секунди', other: '# секунд' })}`,
    missingPage: 'Такої сторінки немає',
    toSearch: 'До пошуку',
    missingPermission: (permission) =>
      `Потрібен дозвіл ${permission}. Його може надати адміністратор.`,
  },
} satisfies Messages;
