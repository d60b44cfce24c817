import type { Messages } from './messages.ts';
import { createPlural } from './plural.ts';

const count = createPlural('ru');

export const ru = {
  language: 'Русский',
  search: 'Поиск',
  map: 'Карта',
  boards: 'Подборки',
  saved: 'Сохранённые поиски',
  chat: 'Чат',
  memory: 'Память',
  account: 'Профиль',
  admin: 'Администрирование',
  compare: 'Сравнение',
  commands: 'Перейти на страницу или выполнить команду',
  noCommand: 'Такой команды нет',
  skipToContent: 'К содержанию',
  theme: { label: 'Тема', light: 'Светлая', dark: 'Тёмная', auto: 'Как в системе' },
  signIn: {
    title: 'Ваши объявления в одном месте',
    text: 'Ищите, сравнивайте и обсуждайте жильё, которое собираете.',
    button: 'Войти',
    ended: 'Сеанс завершён. Введённое сохранено: войдите снова, чтобы продолжить.',
  },
  untitled: 'Объявление без названия',
  noPrice: 'Без цены',
  rooms: (value) =>
    value === 0
      ? 'Студия'
      : count(value, { one: '# комната', few: '# комнаты', other: '# комнат' }),
  floor: (floor, floors) => (floors === null ? `${floor} этаж` : `${floor} этаж из ${floors}`),
  adverts: (value) =>
    count(value, { one: '# объявление', few: '# объявления', other: '# объявлений' }),
  found: (value, isBound) =>
    `${isBound ? 'Не менее ' : ''}${count(value, { one: '# объявление', few: '# объявления', other: '# объявлений' })}`,
  searchBox: 'Две комнаты у парка во Львове до 15 000 грн',
  nothingFound: 'Ничего не найдено',
  clearFilters: 'Сбросить все фильтры',
  loadMore: 'Показать ещё',
  sort: {
    label: 'Порядок',
    newest: 'Сначала новые',
    price_asc: 'Сначала дешёвые',
    price_desc: 'Сначала дорогие',
    price_per_m2_asc: 'Самые дешёвые за м²',
    price_per_m2_desc: 'Самые дорогие за м²',
    area_asc: 'Сначала маленькие',
    area_desc: 'Сначала большие',
  },
  facets: {
    deal_type: 'Сделка',
    property_type: 'Вид',
    city: 'Город',
    district: 'Район',
    source_slug: 'Источник',
  },
  values: {
    sale: 'Продажа',
    rent: 'Аренда',
    daily_rent: 'Посуточно',
    apartment: 'Квартира',
    house: 'Дом',
    room: 'Комната',
    land: 'Участок',
    commercial: 'Коммерческая',
    garage: 'Гараж',
  },
  signOut: 'Выйти',
  error: {
    title: 'Что-то пошло не так',
    network: 'Сервер недоступен. Проверьте соединение и попробуйте ещё раз.',
    request: (id) => `Запрос ${id}`,
    retry: 'Попробовать ещё раз',
    retryIn: (seconds) =>
      `Попробовать ещё раз через ${count(seconds, { one: '# секунду', few: '# секунды', other: '# секунд' })}`,
    missingPage: 'Такой страницы нет',
    toSearch: 'К поиску',
    missingPermission: (permission) =>
      `Нужно разрешение ${permission}. Его может дать администратор.`,
  },
} satisfies Messages;
