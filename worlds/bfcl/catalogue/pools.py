"""Names, topics and sentences from which new BFCL worlds are made. All written for this project."""

from __future__ import annotations

TOPICS = (
    *("spring fundraiser", "product launch", "harbor festival", "film night", "neighborhood cleanup", "book fair"),
    *("science day", "photo exhibition", "charity run", "museum tour", "garden project", "team retreat"),
    *("cooking class", "thesis defense", "open house", "choir concert", "bike tour", "software release"),
    *("alumni dinner", "winter market", "chess tournament", "poetry reading", "robotics workshop", "coastal survey"),
    *("theater season", "language course", "bakery opening", "research grant", "board meeting", "summer camp"),
    *("podcast series", "house renovation", "trade show", "wildlife census", "pottery studio", "jazz weekend"),
)
FIRST_NAMES = (
    *("Amara", "Bruno", "Celia", "Dmitri", "Elena", "Farid", "Greta", "Hassan", "Ines", "Jonas", "Keiko", "Liam"),
    *("Marta", "Nadia", "Oscar", "Priya", "Quentin", "Rosa", "Stefan", "Tamara", "Ugo", "Vera", "Wanda", "Ximena"),
    *("Yusuf", "Zoe", "Anton", "Bianca", "Conrad", "Daphne", "Emil", "Fiona", "Gareth", "Helga", "Imani", "Jasper"),
)
LAST_NAMES = (
    *("Abbott", "Barlow", "Castillo", "Dunmore", "Eriksen", "Fontaine", "Garrick", "Holloway", "Ibarra", "Janssen"),
    *("Kowalski", "Lindqvist", "Moreau", "Nakamura", "Okafor", "Pemberton", "Quill", "Rossi", "Sandoval", "Thorne"),
    *("Ueda", "Valdez", "Whitlock", "Yamada", "Zeller", "Ashdown", "Brandt", "Calloway", "Delacroix", "Ellison"),
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
ITEMS = (
    *("chairs", "posters", "microphones", "name badges", "extension cords", "tablecloths", "projectors", "flyers"),
    *("coffee urns", "tents", "cameras", "paint cans", "sample boxes", "rain jackets", "helmets", "speakers"),
    *("seedlings", "notebooks", "measuring tapes", "ladders", "batteries", "folding tables", "banners", "lamps"),
)
FIRMS = (
    *("Northgate Supplies", "Bluebell Catering", "Harbor Print", "Oakline Rentals", "Sunfield Media", "Tern Logistics"),
    *("Maple Street Bank", "Cobalt Labs", "Riverside Storage", "Lantern Events", "Granite Insurance", "Fern Studio"),
)
PLACES = ("town hall", "main library", "east pavilion", "river stage", "old depot", "north campus", "garden cafe")
